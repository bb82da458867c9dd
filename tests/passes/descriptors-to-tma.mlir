// RUN: convert-ttir-to-ttgir{num_warps=4 capability=90},assign-layouts,descriptors-to-tma

// CHECK-DAG: #[[S:shared[0-9]*]] = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
// CHECK-LABEL: @copy
// CHECK-SAME: %d: !tt.tensordesc<tensor<64x64xf16, #[[S]]>>
// CHECK: %[[M:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #[[S]], #smem, mutable>
// CHECK-NEXT: %[[B:.*]] = ttg.local_alloc
// CHECK-NEXT: ttng.init_barrier %[[B]], 1
// CHECK: ttng.barrier_expect %[[B]], 8192, %[[T:.*]] :
// CHECK-NEXT: ttng.async_tma_copy_global_to_local %d[%i, %j] %[[M]], %[[B]], %[[T]]
// CHECK: ttng.wait_barrier %[[B]]
// CHECK-NEXT: ttng.inval_barrier %[[B]]
// CHECK: %[[X:.*]] = ttg.local_load %[[M]]
// CHECK: %[[N:.*]] = ttg.local_alloc %[[X]]
// CHECK-NEXT: ttng.fence_async_shared
// CHECK-NEXT: ttng.async_tma_copy_local_to_global %e[%i, %j] %[[N]]
// CHECK-NEXT: ttng.async_tma_store_wait {pendings = 0 : i32}
tt.func public @copy(%d: !tt.tensordesc<tensor<64x64xf16>>, %e: !tt.tensordesc<tensor<64x64xf16>>, %i: i32, %j: i32) {
  %x = tt.descriptor_load %d[%i, %j] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
  tt.descriptor_store %e[%i, %j], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>
  tt.return
}
