// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90}

// CHECK: #[[$WIDE:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
// CHECK: module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}
// CHECK-LABEL: @shapes
// CHECK: %[[R:.*]] = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked
// CHECK: %[[C:.*]] = ttg.convert_layout %[[R]] : {{.*}} -> tensor<64xi32, #ttg.slice<{dim = 0, parent = #[[P:.*]]}>>
// CHECK-NEXT: tt.expand_dims %[[C]] {axis = 0 : i32} : {{.*}} -> tensor<1x64xi32, #[[P]]>
// CHECK: tt.broadcast {{.*}} -> tensor<32x64xi32, #[[B:.*]]>
// CHECK: "tt.reduce"
// CHECK: -> tensor<32xi32, #ttg.slice<{dim = 1, parent = #[[B]]}>>
// CHECK-NEXT: ttg.convert_layout {{.*}} -> tensor<32xi32, #blocked
tt.func public @shapes(%p: tensor<32x!tt.ptr<i32>>) {
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %e = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %b = tt.broadcast %e : tensor<1x64xi32> -> tensor<32x64xi32>
  %s = "tt.reduce"(%b) <{axis = 1 : i32}> ({
  ^bb0(%x: i32, %y: i32):
    %z = arith.addi %x, %y : i32
    tt.reduce.return %z : i32
  }) : (tensor<32x64xi32>) -> tensor<32xi32>
  tt.store %p, %s : tensor<32x!tt.ptr<i32>>
  tt.return
}

// A product's operands are shared out so that each thread has whole rows and columns.
// CHECK-LABEL: @product
// CHECK: tt.dot {{.*}} : tensor<32x16xf32, #ttg.dot_op<{opIdx = 0, parent = #[[D:.*]]}>> * tensor<16x32xf32, #ttg.dot_op<{opIdx = 1, parent = #[[D]]}>> -> tensor<32x32xf32, #[[D]]>
tt.func public @product(%a: tensor<32x16xf32>, %b: tensor<16x32xf32>, %c: tensor<32x32xf32>, %p: tensor<32x32x!tt.ptr<f32>>) {
  %d = tt.dot %a, %b, %c : tensor<32x16xf32> * tensor<16x32xf32> -> tensor<32x32xf32>
  tt.store %p, %d : tensor<32x32x!tt.ptr<f32>>
  tt.return
}
