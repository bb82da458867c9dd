// RUN: convert-ttir-to-ttgir{num_warps=4 num_ctas=2 target=cuda:90},coalesce,accelerate-matmul,assign-layouts,match-clusters,cse,dce

// The result's rows are split between the blocks of the cluster, and so are the left operand's. All
// of the right one is in the memory of both: an argument's rows, which are split, are brought there.
// CHECK: #[[ROWS:[a-z0-9]*]] = #ttg.blocked<{{.*}}CGALayout = {{\[\[1, 0\]\]}}}>
// CHECK: #[[COPIES:[a-z0-9]*]] = #ttg.blocked<{{.*}}CGALayout = {{\[\[0, 0\]\]}}}>
// CHECK: #mma = #ttg.nvidia_mma<{{.*}}CGALayout = {{\[\[1, 0\]\]}}, instrShape = [16, 64, 16]}>
// CHECK: #[[A:shared[0-9]*]] = #ttg.nvmma_shared<{{.*}}CGALayout = {{\[\[1, 0\]\]}}}>
// CHECK: #[[B:shared[0-9]*]] = #ttg.nvmma_shared<{{.*}}CGALayout = {{\[\[0, 0\]\]}}}>
// CHECK: "ttg.num-ctas" = 2 : i32
// CHECK-LABEL: @mm
// CHECK: ttg.local_alloc {{.*}} -> !ttg.memdesc<128x64xf16, #[[A]], #smem>
// CHECK: %[[X:.*]] = ttg.convert_layout {{.*}} -> tensor<64x64xf16, #{{.*}}>
// CHECK: ttg.local_alloc %[[X]] : {{.*}} -> !ttg.memdesc<64x64xf16, #[[B]], #smem>
// CHECK: ttng.warp_group_dot
tt.func public @mm(%a: tensor<128x64x!tt.ptr<f16>>, %b: tensor<64x64xf16>, %o: tensor<128x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<128x64xf32>
  %x = tt.load %a : tensor<128x64x!tt.ptr<f16>>
  %e = tt.dot %x, %b, %z : tensor<128x64xf16> * tensor<64x64xf16> -> tensor<128x64xf32>
  tt.store %o, %e : tensor<128x64x!tt.ptr<f32>>
  tt.return
}
