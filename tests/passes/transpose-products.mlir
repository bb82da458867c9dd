// RUN: transpose-products{target=cuda:90 num_warps=4},dce

// Scores of 32 queries, of which a product takes the transposed probabilities: K times Q^T instead.
// CHECK-LABEL: @steps
// CHECK: %[[T:.*]] = tt.trans %q {order = array<i32: 1, 0>} : tensor<32x64xf16> -> tensor<64x32xf16>
// CHECK: %[[Z:.*]] = arith.constant dense<0.000000e+00> : tensor<128x32xf32>
// CHECK: %[[N:.*]] = tt.dot %k, %[[T]], %[[Z]]{{.*}} : tensor<128x64xf16> * tensor<64x32xf16> -> tensor<128x32xf32>
// CHECK: %[[S:.*]] = tt.trans %[[N]] {order = array<i32: 1, 0>} : tensor<128x32xf32> -> tensor<32x128xf32>
// CHECK: arith.truncf %[[S]]
tt.func public @steps(%q: tensor<32x64xf16>, %k: tensor<128x64xf16>, %v: tensor<32x64xf16>, %c: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<32x128xf32>
  %t = tt.trans %k {order = array<i32: 1, 0>} : tensor<128x64xf16> -> tensor<64x128xf16>
  %s = tt.dot %q, %t, %zero : tensor<32x64xf16> * tensor<64x128xf16> -> tensor<32x128xf32>
  %p = arith.truncf %s : tensor<32x128xf32> to tensor<32x128xf16>
  %u = tt.trans %p {order = array<i32: 1, 0>} : tensor<32x128xf16> -> tensor<128x32xf16>
  %d = tt.dot %u, %v, %c : tensor<128x32xf16> * tensor<32x64xf16> -> tensor<128x64xf32>
  tt.return %d : tensor<128x64xf32>
}

// 64 rows are enough for a warp group.
// CHECK-LABEL: @enough
// CHECK: tt.dot %q, {{.*}} -> tensor<64x128xf32>
tt.func public @enough(%q: tensor<64x64xf16>, %k: tensor<128x64xf16>, %v: tensor<64x64xf16>, %c: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %t = tt.trans %k {order = array<i32: 1, 0>} : tensor<128x64xf16> -> tensor<64x128xf16>
  %s = tt.dot %q, %t, %zero : tensor<64x64xf16> * tensor<64x128xf16> -> tensor<64x128xf32>
  %p = arith.truncf %s : tensor<64x128xf32> to tensor<64x128xf16>
  %u = tt.trans %p {order = array<i32: 1, 0>} : tensor<64x128xf16> -> tensor<128x64xf16>
  %d = tt.dot %u, %v, %c : tensor<128x64xf16> * tensor<64x64xf16> -> tensor<128x64xf32>
  tt.return %d : tensor<128x64xf32>
}

// The result is not needed transposed: it would have to be moved.
// CHECK-LABEL: @straight
// CHECK: tt.dot %q, {{.*}} -> tensor<32x128xf32>
tt.func public @straight(%q: tensor<32x64xf16>, %k: tensor<128x64xf16>, %v: tensor<128x64xf16>, %c: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<32x128xf32>
  %t = tt.trans %k {order = array<i32: 1, 0>} : tensor<128x64xf16> -> tensor<64x128xf16>
  %s = tt.dot %q, %t, %zero : tensor<32x64xf16> * tensor<64x128xf16> -> tensor<32x128xf32>
  %p = arith.truncf %s : tensor<32x128xf32> to tensor<32x128xf16>
  %d = tt.dot %p, %v, %c : tensor<32x128xf16> * tensor<128x64xf16> -> tensor<32x64xf32>
  tt.return %d : tensor<32x64xf32>
}

// A sum that goes on would have to be transposed as well.
// CHECK-LABEL: @summed
// CHECK: tt.dot %q, {{.*}} -> tensor<32x128xf32>
tt.func public @summed(%q: tensor<32x64xf16>, %t: tensor<64x128xf16>, %v: tensor<32x64xf16>, %c: tensor<128x64xf32>, %sum: tensor<32x128xf32>) -> tensor<128x64xf32> {
  %s = tt.dot %q, %t, %sum : tensor<32x64xf16> * tensor<64x128xf16> -> tensor<32x128xf32>
  %p = arith.truncf %s : tensor<32x128xf32> to tensor<32x128xf16>
  %u = tt.trans %p {order = array<i32: 1, 0>} : tensor<32x128xf16> -> tensor<128x32xf16>
  %d = tt.dot %u, %v, %c : tensor<128x32xf16> * tensor<32x64xf16> -> tensor<128x64xf32>
  tt.return %d : tensor<128x64xf32>
}
