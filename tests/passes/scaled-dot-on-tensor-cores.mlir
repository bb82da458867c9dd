// RUN: scaled-dot{tensor_cores=true}

// CHECK-LABEL: @scaled
// CHECK: arith.shli %{{.*}} : tensor<16x16xi16>
// CHECK: %[[P:.*]] = tt.join
// CHECK: %[[X:.*]] = tt.reshape %[[P]] : tensor<16x16x2xbf16> -> tensor<16x32xbf16>
// CHECK: %[[A:.*]] = arith.mulf %[[X]]
// CHECK: tt.dot %[[A]], %b, %c : tensor<16x32xbf16> * tensor<32x16xbf16> -> tensor<16x16xf32>
tt.func public @scaled(%a: tensor<16x16xi8>, %s: tensor<16x1xi8>, %b: tensor<32x16xbf16>,
    %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot_scaled %a scale %s, %b, %c lhs = e2m1 rhs = bf16 {fastMath = false} : tensor<16x16xi8>, tensor<16x1xi8> * tensor<32x16xbf16> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}

// CHECK-LABEL: @of_half
// CHECK: tt.dot %{{.*}}, inputPrecision = tf32 : tensor<16x32xf32>
tt.func public @of_half(%a: tensor<16x32xf16>, %s: tensor<16x1xi8>, %b: tensor<32x16xbf16>,
    %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot_scaled %a scale %s, %b, %c lhs = fp16 rhs = bf16 {fastMath = false} : tensor<16x32xf16>, tensor<16x1xi8> * tensor<32x16xbf16> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}

// CHECK-LABEL: @with_real_scales
// CHECK: tt.dot %{{.*}}, inputPrecision = tf32x3 : tensor<16x32xf32>
tt.func public @with_real_scales(%a: tensor<16x32xbf16>, %s: tensor<16x2xf8E4M3FN>, %b: tensor<32x16xbf16>,
    %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot_scaled %a scale %s, %b, %c lhs = bf16 rhs = bf16 {fastMath = false} : tensor<16x32xbf16>, tensor<16x2xf8E4M3FN> * tensor<32x16xbf16> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}
