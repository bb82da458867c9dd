// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},accelerate-matmul{registers=true},assign-layouts,dce

// Where shared memory is short, a computed left operand stays in registers. What moves it there
// comes before the right operand, so that both can use the same memory.
// CHECK-LABEL: @computed
// CHECK: arith.extf
// CHECK: %[[A:.*]] = ttg.convert_layout {{.*}} -> tensor<64x64xbf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
// CHECK: %[[B:.*]] = ttg.local_alloc
// CHECK: ttng.warp_group_dot %[[A]], %[[B]],
tt.func public @computed(%a: tensor<64x64x!tt.ptr<bf16>>, %b: tensor<64x64x!tt.ptr<bf16>>, %c: tensor<64x64xf32>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %x = tt.load %a : tensor<64x64x!tt.ptr<bf16>>
  %y = tt.load %b : tensor<64x64x!tt.ptr<bf16>>
  %w = arith.extf %x : tensor<64x64xbf16> to tensor<64x64xf32>
  %e = math.exp2 %w : tensor<64x64xf32>
  %n = arith.truncf %e : tensor<64x64xf32> to tensor<64x64xbf16>
  %m = arith.mulf %y, %y : tensor<64x64xbf16>
  %d = tt.dot %n, %m, %c : tensor<64x64xbf16> * tensor<64x64xbf16> -> tensor<64x64xf32>
  tt.store %p, %d : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// One that was loaded is read from where it was copied to.
// CHECK-LABEL: @loaded
// CHECK: %[[A:.*]] = ttg.local_alloc
// CHECK: ttng.warp_group_dot %[[A]], {{.*}} : !ttg.memdesc
tt.func public @loaded(%a: tensor<64x64x!tt.ptr<bf16>>, %b: tensor<64x64xbf16>, %c: tensor<64x64xf32>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %x = tt.load %a : tensor<64x64x!tt.ptr<bf16>>
  %d = tt.dot %x, %b, %c : tensor<64x64xbf16> * tensor<64x64xbf16> -> tensor<64x64xf32>
  tt.store %p, %d : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
