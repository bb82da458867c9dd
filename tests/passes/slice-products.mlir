// RUN: convert-ttir-to-ttgir{num_warps=8 target=hip:gfx1150 lanes=32},coalesce,accelerate-matmul,assign-layouts,cse,licm,pipeline{num_stages=2},canonicalize,cse,reload-operands,slice-products,dce

// 176 registers of sums and of the next tiles, and 64 of a slice that is converted.
// CHECK-LABEL: @crowded
// CHECK: scf.for
// CHECK: %[[A0:.*]] = ttg.memdesc_subslice %[[A:.*]][0, 0] : !ttg.memdesc<128x128xi8, {{.*}} -> !ttg.memdesc<128x16xi8, {{.*}}, 128x128>
// CHECK: %[[X0:.*]] = ttg.local_load %[[A0]]
// CHECK: %[[F0:.*]] = arith.sitofp %[[X0]]
// CHECK: %[[B0:.*]] = ttg.memdesc_subslice %[[B:.*]][0, 0]
// CHECK: %[[Y0:.*]] = ttg.local_load %[[B0]]
// CHECK: %[[G0:.*]] = arith.sitofp %[[Y0]]
// CHECK: %[[D0:.*]] = tt.dot %[[F0]], %[[G0]], %{{.*}} : tensor<128x16xf16, {{.*}} * tensor<16x256xf16,
// CHECK-NEXT: rocdl.sched.barrier none
// CHECK: ttg.memdesc_subslice %[[A]][0, 16]
// CHECK: ttg.memdesc_subslice %[[B]][16, 0]
// CHECK: tt.dot %{{.*}}, %{{.*}}, %[[D0]]
// CHECK: ttg.memdesc_subslice %[[A]][0, 112]
// CHECK: %[[D:.*]] = tt.dot
// CHECK-NEXT: rocdl.sched.barrier none
// CHECK-NEXT: scf.yield %[[D]],
tt.func public @crowded(%a: tensor<128x128x!tt.ptr<i8>>, %b: tensor<128x256x!tt.ptr<i8>>, %n: i32, %p: tensor<128x256x!tt.ptr<f32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i32 {
    %x = tt.load %a : tensor<128x128x!tt.ptr<i8>>
    %y = tt.load %b : tensor<128x256x!tt.ptr<i8>>
    %f = arith.sitofp %x : tensor<128x128xi8> to tensor<128x128xf16>
    %g = arith.sitofp %y : tensor<128x256xi8> to tensor<128x256xf16>
    %d = tt.dot %f, %g, %acc : tensor<128x128xf16> * tensor<128x256xf16> -> tensor<128x256xf32>
    scf.yield %d : tensor<128x256xf32>
  }
  tt.store %p, %s : tensor<128x256x!tt.ptr<f32>>
  tt.return
}

// Half as many sums leave room for what LLVM reads ahead.
// CHECK-LABEL: @roomy
// CHECK-NOT: ttg.memdesc_subslice
// CHECK: tt.return
tt.func public @roomy(%a: tensor<128x128x!tt.ptr<i8>>, %b: tensor<128x128x!tt.ptr<i8>>, %n: i32, %p: tensor<128x128x!tt.ptr<f32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
    %x = tt.load %a : tensor<128x128x!tt.ptr<i8>>
    %y = tt.load %b : tensor<128x128x!tt.ptr<i8>>
    %f = arith.sitofp %x : tensor<128x128xi8> to tensor<128x128xf16>
    %g = arith.sitofp %y : tensor<128x128xi8> to tensor<128x128xf16>
    %d = tt.dot %f, %g, %acc : tensor<128x128xf16> * tensor<128x128xf16> -> tensor<128x128xf32>
    scf.yield %d : tensor<128x128xf32>
  }
  tt.store %p, %s : tensor<128x128x!tt.ptr<f32>>
  tt.return
}
