// RUN: split-conversions

#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory

// A whole tile would take 64 KiB, twice what counts for little.
// CHECK-LABEL: @alone
// CHECK: ttg.convert_layout %x {ttg.parts = 2 : i32}
tt.func public @alone(%x: tensor<128x128xf32, #mma>) -> tensor<128x128xf32, #blocked> {
  %y = ttg.convert_layout %x : tensor<128x128xf32, #mma> -> tensor<128x128xf32, #blocked>
  tt.return %y : tensor<128x128xf32, #blocked>
}

// Something else takes as much, at another time.
// CHECK-LABEL: @beside
// CHECK: ttg.convert_layout %x :
tt.func public @beside(%x: tensor<128x128xf32, #mma>) -> tensor<128x128xf32, #blocked> {
  %m = ttg.local_alloc : () -> !ttg.memdesc<2x128x64xf32, #shared, #smem, mutable>
  ttg.local_dealloc %m : !ttg.memdesc<2x128x64xf32, #shared, #smem, mutable>
  %y = ttg.convert_layout %x : tensor<128x128xf32, #mma> -> tensor<128x128xf32, #blocked>
  tt.return %y : tensor<128x128xf32, #blocked>
}

// In a loop barriers count.
// CHECK-LABEL: @often
// CHECK: ttg.convert_layout %x :
tt.func public @often(%x: tensor<128x128xf32, #mma>, %p: tensor<128x128x!tt.ptr<f32>, #blocked>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %y = ttg.convert_layout %x : tensor<128x128xf32, #mma> -> tensor<128x128xf32, #blocked>
    tt.store %p, %y : tensor<128x128x!tt.ptr<f32>, #blocked>
  }
  tt.return
}

// Small tiles go as they are.
// CHECK-LABEL: @small
// CHECK: ttg.convert_layout %x :
tt.func public @small(%x: tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #blocked> {
  %y = ttg.convert_layout %x : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked>
  tt.return %y : tensor<64x64xf32, #blocked>
}
