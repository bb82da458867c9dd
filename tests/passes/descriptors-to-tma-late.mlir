// RUN: descriptors-to-tma{late=each},canonicalize

// A store in a loop, in a branch of it too, has memory of its own that the copy engine reads while
// the next iteration runs.
// CHECK-LABEL: @tiles
// CHECK: %[[M:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16
// CHECK: scf.for
// CHECK: scf.if
// CHECK: ttng.async_tma_store_wait {pendings = 0 : i32}
// CHECK-NEXT: ttg.local_store %x, %[[M]]
// CHECK-NEXT: ttng.fence_async_shared
// CHECK-NEXT: ttng.async_tma_copy_local_to_global %c[{{.*}}] %[[M]]
// CHECK-NOT: ttng.async_tma_store_wait
// CHECK: }
// CHECK: }
// CHECK-NEXT: ttng.async_tma_store_wait {pendings = 0 : i32}
// CHECK-NEXT: tt.return

// What the program loads too is waited for to its end, at once.
// CHECK-LABEL: @loaded
// CHECK: scf.for
// CHECK: ttng.async_tma_copy_local_to_global
// CHECK-NEXT: ttng.async_tma_store_wait {complete, pendings = 0 : i32}

// Two stores in a loop have memory each; either copy may still be under way when the other begins.
// CHECK-LABEL: @halves
// CHECK: %[[A:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16
// CHECK: %[[B:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16
// CHECK: ttng.async_tma_store_wait {pendings = 1 : i32}
// CHECK-NEXT: ttg.local_store %x, %[[A]]
// CHECK: ttng.async_tma_store_wait {pendings = 1 : i32}
// CHECK-NEXT: ttg.local_store %x, %[[B]]
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @tiles(%c: !tt.tensordesc<tensor<64x64xf16>>, %x: tensor<64x64xf16, #blocked>, %m: i32, %k: i1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    scf.if %k {
      tt.descriptor_store %c[%t, %c0], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
    }
  }
  tt.return
}

tt.func public @loaded(%c: !tt.tensordesc<tensor<64x64xf16>>, %m: i32) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    %x = tt.descriptor_load %c[%t, %c64] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16, #blocked>
    tt.descriptor_store %c[%t, %c0], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
  }
  tt.return
}

tt.func public @halves(%c: !tt.tensordesc<tensor<64x64xf16>>, %x: tensor<64x64xf16, #blocked>, %m: i32) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    tt.descriptor_store %c[%t, %c0], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
    tt.descriptor_store %c[%t, %c64], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
  }
  tt.return
}
}
