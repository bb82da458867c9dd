// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},coalesce,accelerate-matmul,assign-layouts,stage-operands,dce

// Both operands are stored before either is loaded; nothing is between the loads and the product.
// CHECK-LABEL: @mm
// CHECK: %[[M:.*]] = ttg.local_alloc %{{.*}} -> !ttg.memdesc<64x64xf32, #shared, #smem>
// CHECK-NEXT: %[[N:.*]] = ttg.local_alloc %{{.*}} -> !ttg.memdesc<64x64xf32, #shared, #smem>
// CHECK-NEXT: %[[X:.*]] = ttg.local_load %[[M]] : {{.*}} -> tensor<64x64xf32, #ttg.dot_op<{opIdx = 0, parent = #blocked{{[0-9]*}}}>>
// CHECK-NEXT: %[[Y:.*]] = ttg.local_load %[[N]] : {{.*}} -> tensor<64x64xf32, #ttg.dot_op<{opIdx = 1, parent = #blocked{{[0-9]*}}}>>
// CHECK-NEXT: tt.dot %[[X]], %[[Y]],
// CHECK-NOT: ttg.convert_layout {{.*}} #ttg.dot_op
tt.func public @mm(%a: tensor<64x64x!tt.ptr<f32>>, %b: tensor<64x64x!tt.ptr<f32>>, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %x = tt.load %a : tensor<64x64x!tt.ptr<f32>>
  %y = tt.load %b : tensor<64x64x!tt.ptr<f32>>
  %d = tt.dot %x, %y, %z : tensor<64x64xf32> * tensor<64x64xf32> -> tensor<64x64xf32>
  tt.store %o, %d : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// Small operands stay in registers.
// CHECK-LABEL: @small
// CHECK-NOT: ttg.local_alloc
// CHECK: tt.dot
tt.func public @small(%a: tensor<16x8x!tt.ptr<f32>>, %b: tensor<8x16x!tt.ptr<f32>>, %o: tensor<16x16x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<16x16xf32>
  %x = tt.load %a : tensor<16x8x!tt.ptr<f32>>
  %y = tt.load %b : tensor<8x16x!tt.ptr<f32>>
  %d = tt.dot %x, %y, %z : tensor<16x8xf32> * tensor<8x16xf32> -> tensor<16x16xf32>
  tt.store %o, %d : tensor<16x16x!tt.ptr<f32>>
  tt.return
}
