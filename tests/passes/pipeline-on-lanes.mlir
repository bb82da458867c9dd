// RUN: convert-ttir-to-ttgir{num_warps=4 target=hip:gfx950 lanes=64},coalesce{direct=true},accelerate-matmul,assign-layouts,licm,pipeline{num_stages=2 direct=true},buffer-accesses,canonicalize,cse,dce

// The lanes of a warp copy 16 bytes each to neighbouring places; the copies of the next iteration
// begin before the product, into a buffer that it does not read.
// CHECK: #linear = #ttg.linear<{register = {{\[}}[0, 1], [0, 2], [0, 4], [32, 0]], lane = {{\[}}[0, 8], [0, 16], [0, 32], [1, 0], [2, 8], [4, 16]], warp = {{\[}}[8, 32], [16, 0]], block = []}>
// CHECK: #shared = #ttg.shared_linear<{offset = {{\[}}[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 8], [4, 16], [8, 32], [16, 0], [32, 0]], alignment = 16}>
// CHECK-LABEL: @mm
// CHECK: %[[RING:.*]] = ttg.local_alloc : () -> !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>
// CHECK: amdg.buffer_load_to_local %a[{{.*}}] mask
// CHECK: ttg.async_commit_group
// CHECK: scf.for
// CHECK: ttg.async_wait {num = 0 : i32}
// CHECK: amdg.buffer_load_to_local {{.*}} : <f16>[tensor<64x64xi32, #linear>] -> <64x64xf16, #shared, #smem, mutable>
// CHECK: ttg.async_commit_group
// CHECK: %[[M:.*]] = ttg.memdesc_index %[[RING]]
// CHECK: ttg.local_load %[[M]]
// CHECK: tt.dot
// CHECK-NEXT: scf.yield
tt.func public @mm(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %p0 = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z) -> (tensor<64x64xf32>) : i32 {
    %k = arith.muli %i, %c64 : i32
    %t = tt.splat %k : i32 -> tensor<64x64xi32>
    %p = tt.addptr %p0, %t : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %e : tensor<64x64xf32>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
