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

// CHECK-LABEL: @sums_of_products
// CHECK: tt.dot %a, %b, %{{.*}} : tensor<16x32xf32> * tensor<32x16xf32> -> tensor<16x16xf32>
// CHECK: tt.reduce
// CHECK: tt.reduce
tt.func public @sums_of_products(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>, %c: tensor<16x1xf32>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>) {
  %0 = tt.expand_dims %a {axis = 2 : i32} : tensor<16x32xf32> -> tensor<16x32x1xf32>
  %1 = tt.expand_dims %b {axis = 0 : i32} : tensor<32x16xf32> -> tensor<1x32x16xf32>
  %2 = tt.broadcast %0 : tensor<16x32x1xf32> -> tensor<16x32x16xf32>
  %3 = tt.broadcast %1 : tensor<1x32x16xf32> -> tensor<16x32x16xf32>
  %4 = arith.mulf %3, %2 : tensor<16x32x16xf32>
  %5 = "tt.reduce"(%4) <{axis = 1 : i32}> ({
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tt.reduce.return %s : f32
  }) : (tensor<16x32x16xf32>) -> tensor<16x16xf32>
  %6 = tt.expand_dims %c {axis = 2 : i32} : tensor<16x1xf32> -> tensor<16x1x1xf32>
  %7 = tt.broadcast %6 : tensor<16x1x1xf32> -> tensor<16x32x16xf32>
  %8 = arith.mulf %7, %3 : tensor<16x32x16xf32>
  %9 = "tt.reduce"(%8) <{axis = 1 : i32}> ({
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tt.reduce.return %s : f32
  }) : (tensor<16x32x16xf32>) -> tensor<16x16xf32>
  %10 = arith.mulf %2, %3 : tensor<16x32x16xf32>
  %11 = "tt.reduce"(%10) <{axis = 2 : i32}> ({
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tt.reduce.return %s : f32
  }) : (tensor<16x32x16xf32>) -> tensor<16x32xf32>
  tt.return %5, %9, %11 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>
}

// CHECK-LABEL: @matrices_of_blocks
// CHECK: %[[X:.*]] = tt.descriptor_load %d[%b, %h, %i, %i] cacheModifier = cg : !tt.tensordesc<tensor<1x1x16x32xf16>> -> tensor<16x32xf16>
// CHECK-NEXT: tt.descriptor_store %e[%b, %h, %i, %i], %[[X]] : !tt.tensordesc<tensor<1x1x16x32xf16>>, tensor<16x32xf16>
// CHECK-NEXT: tt.descriptor_reduce add, %e[%b, %h, %i, %i], %[[X]] : !tt.tensordesc<tensor<1x1x16x32xf16>>, tensor<16x32xf16>
// CHECK: tt.descriptor_load {{.*}} -> tensor<1x1x16x32xf16>
// CHECK: tt.reshape {{.*}} -> tensor<512xf16>
tt.func public @matrices_of_blocks(%d: !tt.tensordesc<tensor<1x1x16x32xf16>>,
    %e: !tt.tensordesc<tensor<1x1x16x32xf16>>, %b: i32, %h: i32, %i: i32) -> tensor<512xf16> {
  %0 = tt.descriptor_load %d[%b, %h, %i, %i] cacheModifier = cg : !tt.tensordesc<tensor<1x1x16x32xf16>> -> tensor<1x1x16x32xf16>
  %x = tt.reshape %0 : tensor<1x1x16x32xf16> -> tensor<16x32xf16>
  %1 = tt.reshape %x : tensor<16x32xf16> -> tensor<1x1x16x32xf16>
  tt.descriptor_store %e[%b, %h, %i, %i], %1 : !tt.tensordesc<tensor<1x1x16x32xf16>>, tensor<1x1x16x32xf16>
  tt.descriptor_reduce add, %e[%b, %h, %i, %i], %1 : !tt.tensordesc<tensor<1x1x16x32xf16>>, tensor<1x1x16x32xf16>
  %2 = tt.descriptor_load %d[%b, %b, %b, %b] : !tt.tensordesc<tensor<1x1x16x32xf16>> -> tensor<1x1x16x32xf16>
  %y = tt.reshape %2 : tensor<1x1x16x32xf16> -> tensor<512xf16>
  tt.return %y : tensor<512xf16>
}
