// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},accelerate-matmul

// Half floats on sm_90: both operands through shared memory.
// CHECK-DAG: #[[MMA:.*]] = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
// CHECK-DAG: #[[SHARED:.*]] = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
// CHECK-LABEL: @wgmma
// CHECK: %[[A:.*]] = ttg.local_alloc %a : {{.*}} -> !ttg.memdesc<64x64xf16, #[[SHARED]], #smem>
// CHECK: %[[B:.*]] = ttg.local_alloc %b : {{.*}} -> !ttg.memdesc<64x64xf16, #[[SHARED]], #smem>
// CHECK: ttng.warp_group_dot %[[A]], %[[B]], {{.*}} -> tensor<64x64xf32, #[[MMA]]>
tt.func public @wgmma(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf32>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %d = tt.dot %a, %b, %c : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
  tt.store %p, %d : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// A transposed operand is a view of what is loaded.
// CHECK-LABEL: @transposed
// CHECK: %[[M:.*]] = ttg.local_alloc %b
// CHECK: %[[T:.*]] = ttg.memdesc_trans %[[M]] {order = array<i32: 1, 0>}
// CHECK: ttng.warp_group_dot %{{.*}}, %[[T]],
tt.func public @transposed(%a: tensor<64x32xf16>, %b: tensor<128x32xf16>, %c: tensor<64x128xf32>, %p: tensor<64x128x!tt.ptr<f32>>) {
  %t = tt.trans %b {order = array<i32: 1, 0>} : tensor<128x32xf16> -> tensor<32x128xf16>
  %d = tt.dot %a, %t, %c : tensor<64x32xf16> * tensor<32x128xf16> -> tensor<64x128xf32>
  tt.store %p, %d : tensor<64x128x!tt.ptr<f32>>
  tt.return
}

// The left operand stays in registers when it comes from another product.
// CHECK-LABEL: @chained
// CHECK: ttng.warp_group_dot
// CHECK: %[[H:.*]] = arith.truncf
// CHECK: %[[R:.*]] = ttg.convert_layout %[[H]] : {{.*}} -> tensor<64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
// CHECK: ttng.warp_group_dot %[[R]], {{.*}} : tensor<64x64xf16, #ttg.dot_op
tt.func public @chained(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf32>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %d = tt.dot %a, %b, %c : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
  %h = arith.truncf %d : tensor<64x64xf32> to tensor<64x64xf16>
  %e = tt.dot %h, %b, %c : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
  tt.store %p, %e : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// In a loop that does not change it, it is read from shared memory: the registers would be copied
// in each iteration.
// CHECK-LABEL: @chained_before_a_loop
// CHECK: scf.for
// CHECK: arith.truncf
// CHECK: %[[KEPT:.*]] = ttg.local_alloc
// CHECK: ttng.warp_group_dot %[[KEPT]], {{.*}} : !ttg.memdesc<64x64xf16
tt.func public @chained_before_a_loop(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf32>, %n: i32, %p: tensor<64x64x!tt.ptr<f32>>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %d = tt.dot %a, %b, %c : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
  %e = scf.for %i = %zero to %n step %one iter_args(%acc = %c) -> (tensor<64x64xf32>) : i32 {
    %h = arith.truncf %d : tensor<64x64xf32> to tensor<64x64xf16>
    %f = tt.dot %h, %b, %acc : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %f : tensor<64x64xf32>
  }
  tt.store %p, %e : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// Too few rows for a warp group: mma.sync.
// CHECK-LABEL: @narrow
// CHECK: tt.dot {{.*}} : tensor<16x64xf16, #ttg.dot_op<{opIdx = 0, parent = #[[OLD:.*]], kWidth = 2}>> * {{.*}} -> tensor<16x64xf32, #[[OLD]]>
tt.func public @narrow(%a: tensor<16x64xf16>, %b: tensor<64x64xf16>, %c: tensor<16x64xf32>, %p: tensor<16x64x!tt.ptr<f32>>) {
  %d = tt.dot %a, %b, %c : tensor<16x64xf16> * tensor<64x64xf16> -> tensor<16x64xf32>
  tt.store %p, %d : tensor<16x64x!tt.ptr<f32>>
  tt.return
}

// Single floats that must be exact stay.
// CHECK-LABEL: @exact
// CHECK: tt.dot {{.*}} : tensor<64x64xf32, #ttg.dot_op<{opIdx = 0, parent = #blocked
tt.func public @exact(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %c: tensor<64x64xf32>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %d = tt.dot %a, %b, %c, inputPrecision = ieee : tensor<64x64xf32> * tensor<64x64xf32> -> tensor<64x64xf32>
  tt.store %p, %d : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
