// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},accelerate-matmul,assign-layouts,licm,warp-specialize{num_stages=2},descriptors-to-tma{late=each},canonicalize

// What a consumer's loop stores has memory of its own, which the copy engine reads while the next
// iteration runs: two stores, of which one may be under way when the other's memory is written.
// CHECK-LABEL: @tiles
// CHECK: ttg.warp_specialize
// CHECK: default {
// CHECK-NEXT: %[[C:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf32
// CHECK-NEXT: %[[D:.*]] = ttg.local_alloc : () -> !ttg.memdesc<64x64xf32
// CHECK: scf.for
// CHECK: ttng.async_tma_store_wait {pendings = 1 : i32}
// CHECK-NEXT: ttg.local_store %{{.*}}, %[[C]]
// CHECK-NEXT: ttng.fence_async_shared
// CHECK-NEXT: ttng.async_tma_copy_local_to_global %c[{{.*}}] %[[C]]
// CHECK: ttng.async_tma_store_wait {pendings = 1 : i32}
// CHECK-NEXT: ttg.local_store %{{.*}}, %[[D]]
// CHECK-NEXT: ttng.fence_async_shared
// CHECK-NEXT: ttng.async_tma_copy_local_to_global %d[{{.*}}] %[[D]]
// CHECK-NOT: ttng.async_tma_store_wait
// CHECK: scf.yield
// CHECK: ttng.async_tma_store_wait {pendings = 0 : i32}
// CHECK: ttg.warp_yield
tt.func public @tiles(%a: !tt.tensordesc<tensor<64x64xf16>>, %b: !tt.tensordesc<tensor<64x64xf16>>, %c: !tt.tensordesc<tensor<64x64xf32>>, %d: !tt.tensordesc<tensor<64x64xf32>>, %m: i32) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    %x = tt.descriptor_load %a[%t, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    %y = tt.descriptor_load %b[%t, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    %r = tt.dot %x, %y, %z : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    tt.descriptor_store %c[%t, %c0], %r : !tt.tensordesc<tensor<64x64xf32>>, tensor<64x64xf32>
    tt.descriptor_store %d[%c0, %t], %r : !tt.tensordesc<tensor<64x64xf32>>, tensor<64x64xf32>
  } {tt.warp_specialize = true}
  tt.return
}

// A device's descriptor: the warp that starts copies acquires its map.
// CHECK-LABEL: @made
// CHECK: %[[P:.*]] = ttg.global_scratch_alloc
// CHECK: ttng.tensormap_create %[[P]]
// CHECK: ttg.warp_specialize({{.*}}%[[P]])
// CHECK: partition0({{.*}}, %[[Q:[^:]*]]: !tt.ptr<i8>) num_warps(1) {
// CHECK-NEXT: ttng.tensormap_fenceproxy_acquire %[[Q]]
// CHECK: ttng.async_tma_copy_global_to_local
tt.func public @made(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %c: !tt.tensordesc<tensor<64x64xf16>>, %m: i32, %s: i64 {tt.divisibility = 16 : i32}) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %a = tt.make_tensor_descriptor %p, [%m, %m], [%s, %one] : <f16>, <tensor<64x64xf16>>
  scf.for %t = %c0 to %m step %c64 : i32 {
    %x = tt.descriptor_load %a[%t, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    tt.descriptor_store %c[%t, %c0], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>
  } {tt.warp_specialize = true}
  tt.return
}
