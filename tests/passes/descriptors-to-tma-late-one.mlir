// RUN: descriptors-to-tma{late=one},canonicalize

// The stores of a loop that store as much one after the other go through the same memory.
// CHECK-LABEL: @halves
// CHECK: %[[A:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16
// CHECK-NOT: ttg.local_alloc
// CHECK: ttng.async_tma_store_wait {pendings = 0 : i32}
// CHECK-NEXT: ttg.local_store %x, %[[A]]
// CHECK: ttng.async_tma_copy_local_to_global %c[%t, %c0_i32] %[[A]]
// CHECK-NEXT: ttng.async_tma_store_wait {pendings = 0 : i32}
// CHECK-NEXT: ttg.local_store %x, %[[A]]
// CHECK: ttng.async_tma_copy_local_to_global %c[%t, %c64_i32] %[[A]]
// CHECK: }
// CHECK-NEXT: ttng.async_tma_store_wait {pendings = 0 : i32}
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @halves(%c: !tt.tensordesc<tensor<64x64xf16>>, %x: tensor<64x64xf16, #blocked>, %m: i32) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    tt.descriptor_store %c[%t, %c0], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
    tt.descriptor_store %c[%t, %c64], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
  }
  tt.return
}
// The wait for the copy of the iteration before stands before the threads write other memory, which
// needs a barrier in any case.
// CHECK-LABEL: @behind
// CHECK: scf.for
// CHECK-NEXT: ttng.async_tma_store_wait {pendings = 0 : i32}
// CHECK-NEXT: ttg.local_alloc %x
// CHECK-NEXT: ttg.local_load
// CHECK-NEXT: ttg.local_store
tt.func public @behind(%c: !tt.tensordesc<tensor<64x64xf16>>, %x: tensor<64x64xf16, #blocked>, %m: i32) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    %s = ttg.local_alloc %x : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
    %y = ttg.local_load %s : !ttg.memdesc<64x64xf16, #shared, #smem> -> tensor<64x64xf16, #blocked>
    tt.descriptor_store %c[%t, %c0], %y : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16, #blocked>
  }
  tt.return
}
}
