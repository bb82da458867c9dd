// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:100},accelerate-matmul

// Half floats on sm_100: both operands in shared memory, a row of the sums in each lane.
// CHECK-DAG: #[[SUMS:.*]] = #ttg.linear<{register = {{\[\[}}0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = {{\[\[}}1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = {{\[\[}}32, 0], [64, 0]], block = []}>
// CHECK-DAG: #[[SCALES:.*]] = #ttg.linear<{register = {{\[\[}}0, 1], [0, 2], [32, 0], [64, 0]], lane = {{.*}}, warp = {{\[\[}}0, 0], [0, 0]], block = []}>
// CHECK-LABEL: @half
// CHECK: %[[A:.*]] = ttg.local_alloc %a : {{.*}} -> !ttg.memdesc<128x64xf16,
// CHECK: %[[B:.*]] = ttg.local_alloc %b : {{.*}} -> !ttg.memdesc<64x64xf16,
// CHECK: ttng.tensor_dot %[[A]], %[[B]], {{.*}} -> tensor<128x64xf32, #[[SUMS]]>
tt.func public @half(%a: tensor<128x64xf16>, %b: tensor<64x64xf16>, %c: tensor<128x64xf32>, %p: tensor<128x64x!tt.ptr<f32>>) {
  %d = tt.dot %a, %b, %c : tensor<128x64xf16> * tensor<64x64xf16> -> tensor<128x64xf32>
  tt.store %p, %d : tensor<128x64x!tt.ptr<f32>>
  tt.return
}

// Tensor memory has 512 columns, room for two products of 256; mma.sync does the third.
// CHECK-LABEL: @much
// CHECK: ttng.tensor_dot
// CHECK: ttng.tensor_dot
// CHECK: tt.dot {{.*}}#mma
tt.func public @much(%n: i32, %a: tensor<128x64xf16>, %b: tensor<64x256xf16>, %c: tensor<128x256xf32>, %p: tensor<128x256x!tt.ptr<f32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %d = tt.dot %a, %b, %c : tensor<128x64xf16> * tensor<64x256xf16> -> tensor<128x256xf32>
    tt.store %p, %d : tensor<128x256x!tt.ptr<f32>>
    %e = tt.dot %a, %b, %c : tensor<128x64xf16> * tensor<64x256xf16> -> tensor<128x256xf32>
    tt.store %p, %e : tensor<128x256x!tt.ptr<f32>>
    %f = tt.dot %a, %b, %c : tensor<128x64xf16> * tensor<64x256xf16> -> tensor<128x256xf32>
    tt.store %p, %f : tensor<128x256x!tt.ptr<f32>>
    scf.yield
  }
  tt.return
}

// Operands with scales: these are tiles of which all warps have all.
// CHECK-LABEL: @scaled
// CHECK: %[[A:.*]] = ttg.local_alloc %a : {{.*}} -> !ttg.memdesc<128x128xf8E4M3FN,
// CHECK: %[[B:.*]] = ttg.local_alloc %b : {{.*}} -> !ttg.memdesc<128x64xf8E4M3FN,
// CHECK: %[[X:.*]] = ttg.convert_layout %x : {{.*}} -> tensor<128x4xi8, #[[SCALES]]>
// CHECK: ttng.tensor_dot_scaled %[[A]] scale %[[X]], %[[B]] scale %{{.*}}, %{{.*}} lhs = e4m3 rhs = e4m3
tt.func public @scaled(%a: tensor<128x128xf8E4M3FN>, %x: tensor<128x4xi8>, %b: tensor<128x64xf8E4M3FN>, %y: tensor<64x4xi8>, %c: tensor<128x64xf32>, %p: tensor<128x64x!tt.ptr<f32>>) {
  %d = tt.dot_scaled %a scale %x, %b scale %y, %c lhs = e4m3 rhs = e4m3 {fastMath = false} : tensor<128x128xf8E4M3FN>, tensor<128x4xi8> * tensor<128x64xf8E4M3FN>, tensor<64x4xi8> -> tensor<128x64xf32>
  tt.store %p, %d : tensor<128x64x!tt.ptr<f32>>
  tt.return
}
