// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},coalesce

// Sixteen bytes a thread where addresses allow; one element where the mask may end anywhere.
// CHECK-DAG: #[[WIDE:.*]] = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
// CHECK-LABEL: @wide
// CHECK: %[[P:.*]] = ttg.convert_layout {{.*}} -> tensor<1024x!tt.ptr<f32>, #[[WIDE]]>
// CHECK-NEXT: tt.load %[[P]] : tensor<1024x!tt.ptr<f32>, #[[WIDE]]>
tt.func public @wide(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32>) {
  %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %v = tt.load %p : tensor<1024x!tt.ptr<f32>>
  %t = tt.splat %o : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %q = tt.addptr %t, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  // The other argument is not known to be aligned.
  // CHECK: tt.store {{.*}} : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.store %q, %v : tensor<1024x!tt.ptr<f32>>
  tt.return
}

// Threads go along the axis along which addresses run on, the first one here.
// CHECK-LABEL: @columns
// CHECK: tt.load {{.*}} : tensor<64x32x!tt.ptr<f16>, #[[COLUMNS:.*]]>
tt.func public @columns(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %stride: i32 {tt.divisibility = 16 : i32}, %out: !tt.ptr<f16>) {
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %c = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %s = tt.splat %stride : i32 -> tensor<1x32xi32>
  %cs = arith.muli %ce, %s : tensor<1x32xi32>
  %rb = tt.broadcast %re : tensor<64x1xi32> -> tensor<64x32xi32>
  %cb = tt.broadcast %cs : tensor<1x32xi32> -> tensor<64x32xi32>
  %o = arith.addi %rb, %cb : tensor<64x32xi32>
  %b = tt.splat %x : !tt.ptr<f16> -> tensor<64x32x!tt.ptr<f16>>
  %p = tt.addptr %b, %o : tensor<64x32x!tt.ptr<f16>>, tensor<64x32xi32>
  %v = tt.load %p : tensor<64x32x!tt.ptr<f16>>
  tt.store %p, %v : tensor<64x32x!tt.ptr<f16>>
  tt.return
}

// CHECK-LABEL: @masked
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return
tt.func public @masked(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
  %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %l = tt.splat %n : i32 -> tensor<1024xi32>
  %m = arith.cmpi slt, %r, %l : tensor<1024xi32>
  %v = tt.load %p, %m : tensor<1024x!tt.ptr<f32>>
  tt.store %p, %v, %m : tensor<1024x!tt.ptr<f32>>
  tt.return
}
