// RUN: tensor-pointers

// CHECK-LABEL: @block_pointer
// CHECK-NOT: tt.make_tensor_ptr
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %i, %{{.*}} = %j) -> (i32, i32)
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi slt
// CHECK: tt.load %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8x!tt.ptr<f32>>
// CHECK: arith.addi %{{.*}}, %c8_i32 : i32
tt.func public @block_pointer(%a: !tt.ptr<f32>, %M: i64, %N: i64, %s: i64, %i: i32, %j: i32,
    %n: i32, %out: tensor<4x8x!tt.ptr<f32>>) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %p = tt.make_tensor_ptr %a, [%M, %N], [%s, %one], [%i, %j] {order = array<i32: 1, 0>} : <tensor<4x8xf32>>
  %r = scf.for %k = %c0 to %n step %c8 iter_args(%q = %p) -> (!tt.ptr<tensor<4x8xf32>>) : i32 {
    %v = tt.load %q {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<4x8xf32>>
    tt.store %out, %v : tensor<4x8x!tt.ptr<f32>>
    %next = tt.advance %q, [%c0, %c8] : <tensor<4x8xf32>>
    scf.yield %next : !tt.ptr<tensor<4x8xf32>>
  }
  tt.return
}

// CHECK-LABEL: @descriptor
// CHECK-NOT: tt.descriptor
// CHECK: tt.load %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8x!tt.ptr<f32>>
// CHECK: tt.store %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8x!tt.ptr<f32>>
// CHECK: tt.atomic_rmw fadd, relaxed
tt.func public @descriptor(%a: !tt.ptr<f32>, %M: i32, %N: i32, %s: i64, %i: i32, %j: i32) {
  %one = arith.constant 1 : i64
  %d = tt.make_tensor_descriptor %a, [%M, %N], [%s, %one] : <f32>, <tensor<4x8xf32>>
  %v = tt.descriptor_load %d[%i, %j] : !tt.tensordesc<tensor<4x8xf32>> -> tensor<4x8xf32>
  tt.descriptor_store %d[%j, %i], %v : !tt.tensordesc<tensor<4x8xf32>>, tensor<4x8xf32>
  tt.descriptor_reduce add, %d[%i, %i], %v : !tt.tensordesc<tensor<4x8xf32>>, tensor<4x8xf32>
  tt.return
}
