// RUN: dot-precision

// CHECK-LABEL: @split
// CHECK: %[[A0:.*]] = arith.truncf %a : tensor<16x32xf32> to tensor<16x32xbf16>
// CHECK: %[[W:.*]] = arith.extf %[[A0]]
// CHECK: %[[R:.*]] = arith.subf %a, %[[W]]
// CHECK: %[[A1:.*]] = arith.truncf %[[R]]
// CHECK: %[[B0:.*]] = arith.truncf %b
// CHECK: %[[B1:.*]] = arith.truncf
// CHECK: %[[S:.*]] = tt.dot %[[A1]], %[[B0]], %cst : tensor<16x32xbf16>
// CHECK: %[[T:.*]] = tt.dot %[[A0]], %[[B1]], %[[S]] : tensor<16x32xbf16>
// CHECK: %[[N:.*]] = arith.cmpf uno, %[[T]], %[[T]]
// CHECK: %[[U:.*]] = arith.select %[[N]], %{{.*}}, %[[T]]
// CHECK: %[[P:.*]] = tt.dot %[[A0]], %[[B0]], %[[U]] : tensor<16x32xbf16>
// CHECK: arith.addf %c, %[[P]]
tt.func public @split(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = tt.dot %a, %b, %c, inputPrecision = bf16x3 : tensor<16x32xf32> * tensor<32x16xf32> -> tensor<16x16xf32>
  tt.return %r : tensor<16x16xf32>
}

// CHECK-LABEL: @small
// CHECK: tt.dot %a, %b, %c, inputPrecision = tf32x3 : tensor<8x32xf32>
tt.func public @small(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %c: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %r = tt.dot %a, %b, %c, inputPrecision = tf32x3 : tensor<8x32xf32> * tensor<32x16xf32> -> tensor<8x16xf32>
  tt.return %r : tensor<8x16xf32>
}

// CHECK-LABEL: @half
// CHECK: %[[X:.*]] = tt.fp_to_fp %a : tensor<16x32xf8E5M2> -> tensor<16x32xf16>
// CHECK: %[[Y:.*]] = tt.fp_to_fp %b
// CHECK: %[[C:.*]] = arith.extf %c : tensor<16x16xf16> to tensor<16x16xf32>
// CHECK: %[[D:.*]] = tt.dot %[[X]], %[[Y]], %[[C]] : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
// CHECK: arith.truncf %[[D]] : tensor<16x16xf32> to tensor<16x16xf16>
tt.func public @half(%a: tensor<16x32xf8E5M2>, %b: tensor<32x16xf8E5M2>, %c: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %r = tt.dot %a, %b, %c : tensor<16x32xf8E5M2> * tensor<32x16xf8E5M2> -> tensor<16x16xf16>
  tt.return %r : tensor<16x16xf16>
}
