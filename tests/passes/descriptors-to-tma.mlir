// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},assign-layouts,descriptors-to-tma

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

// CHECK-LABEL: @made
// CHECK-SAME: %base: !tt.ptr<f32>
// CHECK: %[[P:[0-9]+]] = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 128 : i32} : !tt.ptr<i8>
// CHECK: %[[BYTES:[0-9]+]] = arith.muli %s, %{{.*}} : i64
// CHECK: ttng.tensormap_create %[[P]], %base, [%{{.*}}, %{{.*}}], [%n, %m], [%[[BYTES]]], [%{{.*}}, %{{.*}}] {elem_type = 7 : i32, fill_mode = 1 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32}
// CHECK-NEXT: ttng.tensormap_fenceproxy_acquire %[[P]]
// CHECK-NEXT: %d = ttng.reinterpret_tensor_descriptor %[[P]] : !tt.ptr<i8> to !tt.tensordesc<tensor<64x32xf32, #{{.*}}>>
// CHECK: scf.for {{.*}} iter_args(%e = %d) -> (!tt.tensordesc<tensor<64x32xf32, #{{.*}}>>)
// CHECK: ttng.async_tma_reduce add, %e[%i, %i]
// CHECK-NEXT: ttng.async_tma_store_wait {complete, pendings = 0 : i32}
// CHECK: tt.call @f(%e)
tt.func public @made(%base: !tt.ptr<f32>, %m: i32, %n: i32, %s: i64) {
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %d = tt.make_tensor_descriptor %base, [%m, %n], [%s, %one] {padding = 2 : i32} : <f32>, <tensor<64x32xf32>>
  %r = scf.for %i = %c0 to %m step %c1 iter_args(%e = %d) -> (!tt.tensordesc<tensor<64x32xf32>>) : i32 {
    %x = tt.descriptor_load %e[%i, %c0] : !tt.tensordesc<tensor<64x32xf32>> -> tensor<64x32xf32>
    tt.descriptor_reduce add, %e[%i, %i], %x : !tt.tensordesc<tensor<64x32xf32>>, tensor<64x32xf32>
    tt.call @f(%e) : (!tt.tensordesc<tensor<64x32xf32>>) -> ()
    scf.yield %e : !tt.tensordesc<tensor<64x32xf32>>
  }
  tt.return
}

// CHECK-LABEL: tt.func private @f
// CHECK-SAME: %d: !tt.tensordesc<tensor<64x32xf32, #{{.*}}>>
tt.func private @f(%d: !tt.tensordesc<tensor<64x32xf32>>) attributes {noinline = true} {
  %c0 = arith.constant 0 : i32
  %x = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<64x32xf32>> -> tensor<64x32xf32>
  tt.descriptor_store %d[%c0, %c0], %x : !tt.tensordesc<tensor<64x32xf32>>, tensor<64x32xf32>
  tt.return
}
