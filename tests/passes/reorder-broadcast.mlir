// RUN: reorder-broadcast

// CHECK-LABEL: @splats
// CHECK: %[[M:.*]] = arith.mulf %x, %y : f32
// CHECK: %[[A:.*]] = arith.addf %[[M]], %{{.*}} : f32
// CHECK: tt.splat %[[A]] : f32 -> tensor<64xf32>
// CHECK: %[[P:.*]] = tt.addptr %p, %i : !tt.ptr<f32>, i32
// CHECK: tt.splat %[[P]]
tt.func public @splats(%x: f32, %y: f32, %p: !tt.ptr<f32>, %i: i32) {
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %a = tt.splat %x : f32 -> tensor<64xf32>
  %b = tt.splat %y : f32 -> tensor<64xf32>
  %c = arith.mulf %a, %b : tensor<64xf32>
  %d = arith.addf %c, %one : tensor<64xf32>
  %q = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %j = tt.splat %i : i32 -> tensor<64xi32>
  %r = tt.addptr %q, %j : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %r, %d : tensor<64x!tt.ptr<f32>>
  tt.return
}

// CHECK-LABEL: @broadcasts
// CHECK: %[[S:.*]] = tt.splat %x : f32 -> tensor<64x1xf32>
// CHECK: %[[M:.*]] = arith.mulf %v, %[[S]] : tensor<64x1xf32>
// CHECK: %[[B:.*]] = tt.broadcast %[[M]]
// CHECK: %[[R:.*]] = tt.broadcast %w
// CHECK: arith.addf %[[B]], %[[R]] : tensor<64x64xf32>
tt.func public @broadcasts(%v: tensor<64x1xf32>, %w: tensor<1x64xf32>, %x: f32)
    -> tensor<64x64xf32> {
  %a = tt.broadcast %v : tensor<64x1xf32> -> tensor<64x64xf32>
  %s = tt.splat %x : f32 -> tensor<64x64xf32>
  %b = arith.mulf %a, %s : tensor<64x64xf32>
  %c = tt.broadcast %w : tensor<1x64xf32> -> tensor<64x64xf32>
  %d = arith.addf %b, %c : tensor<64x64xf32>
  tt.return %d : tensor<64x64xf32>
}
