// RUN: combine

// CHECK-LABEL: @dot
// CHECK: tt.dot %a, %b, %c
// CHECK-NOT: arith.addf
// CHECK: tt.dot %a, %b, %c, inputPrecision = tf32
// CHECK-NOT: arith.addf
// CHECK: tt.dot {{.*}}maxNumImpreciseAcc
// CHECK: arith.addf
tt.func public @dot(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tt.dot %a, %b, %zero : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
  %e = arith.addf %d, %c : tensor<16x16xf32>
  %f = tt.dot %a, %b, %zero, inputPrecision = tf32 : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
  %g = arith.addf %c, %f : tensor<16x16xf32>
  %h = tt.dot %a, %b, %zero {maxNumImpreciseAcc = 8 : i32} : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
  %i = arith.addf %c, %h : tensor<16x16xf32>
  tt.return %e, %g, %i : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}

// CHECK-LABEL: @select
// CHECK: tt.load %p, %m, %o
// CHECK-NOT: arith.select
// CHECK: tt.load %p, %m
// CHECK: arith.select %k
tt.func public @select(%p: tensor<8x!tt.ptr<f32>>, %m: tensor<8xi1>, %k: tensor<8xi1>,
    %o: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %x = tt.load %p, %m : tensor<8x!tt.ptr<f32>>
  %y = arith.select %m, %x, %o : tensor<8xi1>, tensor<8xf32>
  %z = tt.load %p, %m : tensor<8x!tt.ptr<f32>>
  %w = arith.select %k, %z, %o : tensor<8xi1>, tensor<8xf32>
  tt.return %y, %w : tensor<8xf32>, tensor<8xf32>
}
