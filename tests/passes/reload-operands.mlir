// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:80},coalesce,accelerate-matmul,assign-layouts,cse,licm,reload-operands,dce

// 128 registers of sums and 128 of operands that do not change: these are read in the loop.
// CHECK-LABEL: @crowded
// CHECK: %[[V:.*]] = tt.load
// CHECK: %[[M:.*]] = ttg.local_alloc %{{.*}} : {{.*}} -> !ttg.memdesc<128x128xf16,
// CHECK: scf.for
// CHECK: %[[R:.*]] = ttg.local_load %[[M]] : {{.*}} -> tensor<128x128xf16, #ttg.dot_op<{opIdx = 1
// CHECK: tt.dot %{{.*}}, %[[R]],
tt.func public @crowded(%a: tensor<128x128x!tt.ptr<f16>>, %b: tensor<128x128x!tt.ptr<f16>>, %n: i32, %p: tensor<128x128x!tt.ptr<f32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %y = tt.load %b : tensor<128x128x!tt.ptr<f16>>
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
    %x = tt.load %a : tensor<128x128x!tt.ptr<f16>>
    %d = tt.dot %x, %y, %acc : tensor<128x128xf16> * tensor<128x128xf16> -> tensor<128x128xf32>
    scf.yield %d : tensor<128x128xf32>
  }
  tt.store %p, %s : tensor<128x128x!tt.ptr<f32>>
  tt.return
}

// Here all has room.
// CHECK-LABEL: @roomy
// CHECK-NOT: ttg.local_alloc
// CHECK: tt.return
tt.func public @roomy(%a: tensor<64x64x!tt.ptr<f16>>, %b: tensor<64x64x!tt.ptr<f16>>, %n: i32, %p: tensor<64x64x!tt.ptr<f32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %y = tt.load %b : tensor<64x64x!tt.ptr<f16>>
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %x = tt.load %a : tensor<64x64x!tt.ptr<f16>>
    %d = tt.dot %x, %y, %acc : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tt.store %p, %s : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// The loop converts both operands, of 128 and 64 registers: they get memory of their own.
// CHECK-LABEL: @converted
// CHECK: scf.for
// CHECK-DAG: %[[A:.*]] = ttg.local_alloc %{{.*}} : {{.*}} -> !ttg.memdesc<256x64xf16,
// CHECK-DAG: %[[B:.*]] = ttg.local_alloc %{{.*}} : {{.*}} -> !ttg.memdesc<64x128xf16,
// CHECK-DAG: %[[X:.*]] = ttg.local_load %[[A]]
// CHECK-DAG: %[[Y:.*]] = ttg.local_load %[[B]]
// CHECK: tt.dot %[[X]], %[[Y]],
tt.func public @converted(%a: tensor<256x64x!tt.ptr<f16>>, %b: tensor<64x128x!tt.ptr<f16>>, %n: i32, %p: tensor<256x128x!tt.ptr<f32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<256x128xf32>
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<256x128xf32>) : i32 {
    %x = tt.load %a : tensor<256x64x!tt.ptr<f16>>
    %y = tt.load %b : tensor<64x128x!tt.ptr<f16>>
    %d = tt.dot %x, %y, %acc : tensor<256x64xf16> * tensor<64x128xf16> -> tensor<256x128xf32>
    scf.yield %d : tensor<256x128xf32>
  }
  tt.store %p, %s : tensor<256x128x!tt.ptr<f32>>
  tt.return
}
