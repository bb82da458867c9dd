// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},coalesce

// Sixteen bytes a thread where addresses allow; one element where the mask may end anywhere.
// CHECK-DAG: #[[SECTORS:.*]] = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
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

// Rows of 2-byte elements that are accessed one by one: a warp reads 32 bytes of two rows, and not
// 64 bytes of one, so that a thread has the addresses of 16 rows and not of 64.
// CHECK-LABEL: @sectors
// CHECK: tt.load %{{.*}} : tensor<128x64x!tt.ptr<f16>, #[[SECTORS]]>
tt.func public @sectors(%base: !tt.ptr<f16>, %stride: i32, %n: i32, %out: tensor<128x64x!tt.ptr<f16>>) {
  %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %c = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<128xi32> -> tensor<128x1xi32>
  %ce = tt.expand_dims %c {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = tt.splat %stride : i32 -> tensor<128x1xi32>
  %ro = arith.muli %re, %s : tensor<128x1xi32>
  %rb = tt.broadcast %ro : tensor<128x1xi32> -> tensor<128x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<128x64xi32>
  %o = arith.addi %rb, %cb : tensor<128x64xi32>
  %b = tt.splat %base : !tt.ptr<f16> -> tensor<128x64x!tt.ptr<f16>>
  %p = tt.addptr %b, %o : tensor<128x64x!tt.ptr<f16>>, tensor<128x64xi32>
  %x = tt.load %p : tensor<128x64x!tt.ptr<f16>>
  tt.store %out, %x : tensor<128x64x!tt.ptr<f16>>
  tt.return
}
