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

// A loop, a branch and a function pass on base, shape and strides.
// CHECK-LABEL: @passed_on
// CHECK-NOT: tensordesc
// CHECK: %{{.*}}:3 = scf.for %k = {{.*}} iter_args(%{{.*}} = %a, %{{.*}} = %n, %{{.*}} = %one{{.*}}) -> (!tt.ptr<f32>, i32, i64)
// CHECK: tt.load
// CHECK: %{{.*}}:3 = scf.if %{{.*}} -> (!tt.ptr<f32>, i32, i64)
// CHECK: arith.select %c, %{{.*}}, %b : !tt.ptr<f32>
// CHECK: %{{.*}}:3 = tt.call @same(%{{.*}}, %{{.*}}, %{{.*}}) : (!tt.ptr<f32>, i32, i64) -> (!tt.ptr<f32>, i32, i64)
// CHECK: tt.store
tt.func public @passed_on(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32, %c: i1) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %d = tt.make_tensor_descriptor %a, [%n], [%one] : <f32>, <tensor<8xf32>>
  %e = tt.make_tensor_descriptor %b, [%n], [%one] : <f32>, <tensor<8xf32>>
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%f = %d) -> (!tt.tensordesc<tensor<8xf32>>) : i32 {
    %v = tt.descriptor_load %f[%k] : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>
    %g = scf.if %c -> (!tt.tensordesc<tensor<8xf32>>) {
      tt.descriptor_store %e[%k], %v : !tt.tensordesc<tensor<8xf32>>, tensor<8xf32>
      scf.yield %e : !tt.tensordesc<tensor<8xf32>>
    } else {
      scf.yield %f : !tt.tensordesc<tensor<8xf32>>
    }
    %h = arith.select %c, %g, %e : !tt.tensordesc<tensor<8xf32>>
    scf.yield %h : !tt.tensordesc<tensor<8xf32>>
  }
  %s = tt.call @same(%r) : (!tt.tensordesc<tensor<8xf32>>) -> !tt.tensordesc<tensor<8xf32>>
  %x = tt.descriptor_load %s[%c0] : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>
  tt.descriptor_store %s[%c1], %x : !tt.tensordesc<tensor<8xf32>>, tensor<8xf32>
  tt.return
}

// CHECK-LABEL: tt.func private @same
// CHECK-SAME: (%{{.*}}: !tt.ptr<f32>, %{{.*}}: i32, %{{.*}}: i64) -> (!tt.ptr<f32>, i32, i64)
// CHECK: tt.return %{{.*}}, %{{.*}}, %{{.*}} : !tt.ptr<f32>, i32, i64
tt.func private @same(%d: !tt.tensordesc<tensor<8xf32>>) -> !tt.tensordesc<tensor<8xf32>> attributes {noinline = true} {
  tt.return %d : !tt.tensordesc<tensor<8xf32>>
}

// Block pointers that meet go in parts, also through `scf.while`.
// CHECK-LABEL: @block_pointers_meet
// CHECK-NOT: make_tensor_ptr
// CHECK: %{{.*}}:4 = scf.if %c -> (!tt.ptr<f32>, i64, i64, i32)
// CHECK: %{{.*}}:5 = scf.while
// CHECK: tt.load
tt.func public @block_pointers_meet(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i64, %k: i32, %c: i1) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %p = tt.make_tensor_ptr %a, [%n], [%one], [%c0] {order = array<i32: 0>} : <tensor<8xf32>>
  %q = tt.make_tensor_ptr %b, [%n], [%one], [%c8] {order = array<i32: 0>} : <tensor<8xf32>>
  %r = scf.if %c -> (!tt.ptr<tensor<8xf32>>) {
    %s = tt.advance %p, [%c8] : <tensor<8xf32>>
    scf.yield %s : !tt.ptr<tensor<8xf32>>
  } else {
    scf.yield %q : !tt.ptr<tensor<8xf32>>
  }
  %w:2 = scf.while (%i = %c0, %t = %r) : (i32, !tt.ptr<tensor<8xf32>>) -> (i32, !tt.ptr<tensor<8xf32>>) {
    %more = arith.cmpi slt, %i, %k : i32
    scf.condition(%more) %i, %t : i32, !tt.ptr<tensor<8xf32>>
  } do {
  ^bb0(%i: i32, %t: !tt.ptr<tensor<8xf32>>):
    %v = tt.load %t {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<8xf32>>
    tt.store %t, %v {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<8xf32>>
    %u = tt.advance %t, [%c8] : <tensor<8xf32>>
    %j = arith.addi %i, %c8 : i32
    scf.yield %j, %u : i32, !tt.ptr<tensor<8xf32>>
  }
  tt.return
}
