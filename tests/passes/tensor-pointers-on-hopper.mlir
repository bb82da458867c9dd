// RUN: tensor-pointers{target=cuda:90}

// The copy engine serves %d and %e; not %f, of which rows are gathered, %g, whose rows begin at
// multiples of 4 bytes, and %h, whose memory threads write.
// CHECK-LABEL: @kept
// CHECK: %d = tt.make_tensor_descriptor %a
// CHECK: %e = tt.make_tensor_descriptor %b
// CHECK-NOT: tt.make_tensor_descriptor
// CHECK: tt.descriptor_load %d
// CHECK: tt.descriptor_reduce add, %e
// CHECK-NOT: tt.descriptor
// CHECK: tt.return
tt.func public @kept(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32, %s: i64, %r: tensor<8xi32>) {
  %one = arith.constant 1 : i64
  %odd = arith.constant 33 : i64
  %c0 = arith.constant 0 : i32
  %d = tt.make_tensor_descriptor %a, [%n, %n], [%s, %one] : <f32>, <tensor<1x8xf32>>
  %e = tt.make_tensor_descriptor %b, [%n, %n], [%s, %one] : <f32>, <tensor<1x8xf32>>
  %f = tt.make_tensor_descriptor %a, [%n, %n], [%s, %one] : <f32>, <tensor<1x8xf32>>
  %g = tt.make_tensor_descriptor %a, [%n, %n], [%odd, %one] : <f32>, <tensor<1x8xf32>>
  %h = tt.make_tensor_descriptor %o, [%n, %n], [%s, %one] : <f32>, <tensor<1x8xf32>>
  %v = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<1x8xf32>> -> tensor<1x8xf32>
  tt.descriptor_reduce add, %e[%c0, %c0], %v : !tt.tensordesc<tensor<1x8xf32>>, tensor<1x8xf32>
  %w = tt.descriptor_gather %f[%r, %c0] : (!tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, i32) -> tensor<8x8xf32>
  %x = tt.descriptor_load %g[%c0, %c0] : !tt.tensordesc<tensor<1x8xf32>> -> tensor<1x8xf32>
  tt.descriptor_store %h[%c0, %c0], %x : !tt.tensordesc<tensor<1x8xf32>>, tensor<1x8xf32>
  %nought = arith.constant 0.0 : f32
  tt.store %o, %nought : !tt.ptr<f32>
  tt.return
}

// Each turn's map is written where the one before was, which is still needed.
// CHECK-LABEL: @one_before
// CHECK-NOT: tt.make_tensor_descriptor
// CHECK: tt.return
tt.func public @one_before(%a: !tt.ptr<f32>, %n: i32, %out: !tt.ptr<f32>) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %d = tt.make_tensor_descriptor %a, [%n], [%one] : <f32>, <tensor<8xf32>>
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%e = %d) -> (!tt.tensordesc<tensor<8xf32>>) : i32 {
    %p = tt.addptr %a, %k : !tt.ptr<f32>, i32
    %f = tt.make_tensor_descriptor %p, [%n], [%one] : <f32>, <tensor<8xf32>>
    %v = tt.descriptor_load %e[%c0] : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>
    %w = tt.descriptor_load %f[%c0] : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>
    tt.print "x: " {hex = false, isSigned = array<i32: 0, 0>} : %v, %w : tensor<8xf32>, tensor<8xf32>
    scf.yield %f : !tt.tensordesc<tensor<8xf32>>
  }
  tt.return
}

// Here the one before is not.
// CHECK-LABEL: @renewed
// CHECK: iter_args(%e = %d) -> (!tt.tensordesc<tensor<8xf32>>)
// CHECK: %f = tt.make_tensor_descriptor
tt.func public @renewed(%a: !tt.ptr<f32>, %n: i32) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %d = tt.make_tensor_descriptor %a, [%n], [%one] : <f32>, <tensor<8xf32>>
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%e = %d) -> (!tt.tensordesc<tensor<8xf32>>) : i32 {
    %v = tt.descriptor_load %e[%c0] : !tt.tensordesc<tensor<8xf32>> -> tensor<8xf32>
    tt.print "x: " {hex = false, isSigned = array<i32: 0>} : %v : tensor<8xf32>
    %p = tt.addptr %a, %k : !tt.ptr<f32>, i32
    %f = tt.make_tensor_descriptor %p, [%n], [%one] : <f32>, <tensor<8xf32>>
    scf.yield %f : !tt.tensordesc<tensor<8xf32>>
  }
  tt.return
}
