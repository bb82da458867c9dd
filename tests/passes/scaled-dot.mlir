// RUN: scaled-dot

// CHECK-LABEL: @scaled
// CHECK-NOT: tt.dot_scaled
// CHECK: arith.andi
// CHECK: arith.shrui
// CHECK: %[[P:.*]] = tt.join
// CHECK: %[[X:.*]] = tt.reshape %[[P]] : tensor<16x16x2xf32> -> tensor<16x32xf32>
// CHECK: arith.maxui
// CHECK: tt.broadcast %{{.*}} : tensor<16x1x1xf32> -> tensor<16x1x32xf32>
// CHECK: %[[A:.*]] = arith.mulf %[[X]]
// CHECK: arith.extf %b : tensor<32x16xbf16> to tensor<32x16xf32>
// CHECK: tt.dot %[[A]], %{{.*}}, %c : tensor<16x32xf32> * tensor<32x16xf32> -> tensor<16x16xf32>
tt.func public @scaled(%a: tensor<16x16xi8>, %s: tensor<16x1xi8>, %b: tensor<32x16xbf16>,
    %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot_scaled %a scale %s, %b, %c lhs = e2m1 rhs = bf16 {fastMath = false} : tensor<16x16xi8>, tensor<16x1xi8> * tensor<32x16xbf16> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}
