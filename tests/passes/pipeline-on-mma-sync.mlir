// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:80},coalesce,accelerate-matmul,assign-layouts,licm,pipeline{num_stages=3},canonicalize,dce

// What is loaded is read by ldmatrix after it was transposed: its buffers are swizzled, as rows of
// 128 bytes would otherwise be in the same banks.
// CHECK-DAG: #[[RING:.*]] = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
// CHECK-LABEL: @transposed
// CHECK: ttg.local_alloc : () -> !ttg.memdesc<2x64x64xf16, #[[RING]], #smem, mutable>
// CHECK: scf.for
// CHECK: ttg.memdesc_trans
// CHECK-NEXT: ttg.local_load {{.*}} -> tensor<64x64xf16, #ttg.dot_op<{opIdx = 1
tt.func public @transposed(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %x: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
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
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %p0) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %k = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %t = tt.trans %k {order = array<i32: 1, 0>} : tensor<64x64xf16> -> tensor<64x64xf16>
    %e = tt.dot %x, %t, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
