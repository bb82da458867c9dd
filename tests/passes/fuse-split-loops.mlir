// RUN: fuse-split-loops,canonicalize

#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>
#sums = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#smem = #ttg.shared_memory

// A loop that is to be split becomes one with the loop inside it where sums are in tensor memory.
// CHECK-LABEL: @tiles
// CHECK: scf.for {{.*}} : i64 {
// CHECK-NOT: scf.for
// CHECK: ttng.tensor_dot
// CHECK: scf.if
// CHECK: } {tt.flatten, tt.warp_specialize}
tt.func public @tiles(%n: i32, %p: tensor<128x16x!tt.ptr<f32>, #sums>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<128x16xf32, #sums>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  scf.for %t = %c0 to %n step %c1 : i32 {
    %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %z) -> (tensor<128x16xf32, #sums>) : i32 {
      %d = ttng.tensor_dot %a, %b, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
      scf.yield %d : tensor<128x16xf32, #sums>
    }
    tt.store %p, %r : tensor<128x16x!tt.ptr<f32>, #sums>
  } {tt.flatten, tt.warp_specialize}
  tt.return
}

// Not without the wish to split it: `fuse-nested-loops` does so later.
// CHECK-LABEL: @whole
// CHECK: scf.for
// CHECK: scf.for
// CHECK: } {tt.flatten}
tt.func public @whole(%n: i32, %p: tensor<128x16x!tt.ptr<f32>, #sums>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<128x16xf32, #sums>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  scf.for %t = %c0 to %n step %c1 : i32 {
    %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %z) -> (tensor<128x16xf32, #sums>) : i32 {
      %d = ttng.tensor_dot %a, %b, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
      scf.yield %d : tensor<128x16xf32, #sums>
    }
    tt.store %p, %r : tensor<128x16x!tt.ptr<f32>, #sums>
  } {tt.flatten}
  tt.return
}
