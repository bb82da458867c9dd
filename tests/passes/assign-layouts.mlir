// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},coalesce,accelerate-matmul,assign-layouts

// What is made of ranges and scalars is made in the encoding that it is used in.
// CHECK-LABEL: @copy
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.load {{.*}} : tensor<1024x!tt.ptr<f32>, #[[W:.*]]>
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.store {{.*}} : tensor<1024x!tt.ptr<f32>, #[[W]]>
tt.func public @copy(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %v = tt.load %p : tensor<1024x!tt.ptr<f32>>
  %t = tt.splat %o : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %q = tt.addptr %t, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %w = math.exp %v : tensor<1024xf32>
  tt.store %q, %w : tensor<1024x!tt.ptr<f32>>
  tt.return
}

// Row sums: the index of rows and the sums meet without a conversion; the pointers are computed
// for the slice that the reduction leaves.
// CHECK-LABEL: @sums
// CHECK: "tt.reduce"
// CHECK: -> tensor<16xf32, #ttg.slice<{dim = 1, parent = #[[P:.*]]}>>
tt.func public @sums(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32>) {
  %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %c = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %s = arith.constant dense<64> : tensor<16x1xi32>
  %rs = arith.muli %re, %s : tensor<16x1xi32>
  %ce = tt.expand_dims %c {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %rb = tt.broadcast %rs : tensor<16x1xi32> -> tensor<16x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<16x64xi32>
  %at = arith.addi %rb, %cb : tensor<16x64xi32>
  %b = tt.splat %x : !tt.ptr<f32> -> tensor<16x64x!tt.ptr<f32>>
  %p = tt.addptr %b, %at : tensor<16x64x!tt.ptr<f32>>, tensor<16x64xi32>
  %v = tt.load %p : tensor<16x64x!tt.ptr<f32>>
  %m = "tt.reduce"(%v) <{axis = 1 : i32}> ({
  ^bb0(%i: f32, %j: f32):
    %k = arith.addf %i, %j : f32
    tt.reduce.return %k : f32
  }) : (tensor<16x64xf32>) -> tensor<16xf32>
  %ob = tt.splat %o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %q = tt.addptr %ob, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  // CHECK: %[[C:.*]] = ttg.convert_layout {{.*}} : tensor<16xf32, #ttg.slice
  // CHECK-NEXT: tt.store {{.*}}, %[[C]]
  tt.store %q, %m : tensor<16x!tt.ptr<f32>>
  tt.return
}

// An accumulator is carried in the encoding of the product; only what is stored is converted.
// CHECK-LABEL: @accumulate
// CHECK: %[[Z:.*]] = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #mma>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[Z]]) -> (tensor<64x64xf32, #mma>)
// CHECK-NOT: ttg.convert_layout
// CHECK: %[[H:.*]] = arith.truncf
// CHECK-NEXT: ttg.convert_layout %[[H]] : tensor<64x64xf16, #mma>
// CHECK-NEXT: tt.store
tt.func public @accumulate(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %n: i32, %p: tensor<64x64x!tt.ptr<f16>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x64xf32>) : i32 {
    %d = tt.dot %a, %b, %acc : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  %h = arith.truncf %r : tensor<64x64xf32> to tensor<64x64xf16>
  tt.store %p, %h : tensor<64x64x!tt.ptr<f16>>
  tt.return
}

// A loaded row that meets a product is converted before it gets its second axis: from a buffer in
// shared memory it can then be read as it is used, though the product after it wants it otherwise.
// CHECK-LABEL: @row
// CHECK: %[[D:.*]] = ttng.warp_group_dot
// CHECK: %[[L:.*]] = tt.load %{{.*}} : tensor<64x!tt.ptr<f32>, #blocked{{[0-9]*}}>
// CHECK-NEXT: %[[S:.*]] = ttg.convert_layout %[[L]] : {{.*}} -> tensor<64xf32, #ttg.slice<{dim = 0, parent = #mma}>>
// CHECK-NEXT: tt.expand_dims %[[S]]
// CHECK-NOT: ttg.convert_layout %{{.*}} : tensor<1x64xf32
// CHECK: ttng.warp_group_dot
tt.func public @row(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %v: tensor<64x64xf16>, %x: tensor<64x!tt.ptr<f32>>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %d = tt.dot %a, %b, %z : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
  %l = tt.load %x : tensor<64x!tt.ptr<f32>>
  %e = tt.expand_dims %l {axis = 0 : i32} : tensor<64xf32> -> tensor<1x64xf32>
  %r = tt.broadcast %e : tensor<1x64xf32> -> tensor<64x64xf32>
  %s = arith.subf %d, %r : tensor<64x64xf32>
  %h = arith.truncf %s : tensor<64x64xf32> to tensor<64x64xf16>
  %o = tt.dot %h, %v, %z : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
  tt.store %p, %o : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// The halves of a product along its columns are in registers of one thread: they are taken apart as
// they come. Halves along a row of pairs that two threads have are moved first.
// CHECK-LABEL: @halves
// CHECK: ttng.warp_group_dot
// CHECK-NOT: ttg.convert_layout {{.*}}tensor<64x128x2xf32
// CHECK: tt.split
// CHECK: arith.truncf
tt.func public @halves(%a: tensor<64x64xf16>, %b: tensor<64x256xf16>, %p: tensor<64x128x!tt.ptr<f16>>) {
  %z = arith.constant dense<0.0> : tensor<64x256xf32>
  %d = tt.dot %a, %b, %z : tensor<64x64xf16> * tensor<64x256xf16> -> tensor<64x256xf32>
  %r = tt.reshape %d : tensor<64x256xf32> -> tensor<64x2x128xf32>
  %t = tt.trans %r {order = array<i32: 0, 2, 1>} : tensor<64x2x128xf32> -> tensor<64x128x2xf32>
  %h:2 = tt.split %t : tensor<64x128x2xf32> -> tensor<64x128xf32>
  %x = arith.truncf %h#0 : tensor<64x128xf32> to tensor<64x128xf16>
  tt.store %p, %x : tensor<64x128x!tt.ptr<f16>>
  %y = arith.truncf %h#1 : tensor<64x128xf32> to tensor<64x128xf16>
  tt.store %p, %y : tensor<64x128x!tt.ptr<f16>>
  tt.return
}

// CHECK-LABEL: @rows
// CHECK: ttng.warp_group_dot
// CHECK: ttg.convert_layout {{.*}} -> tensor<128x32x2xf32
// CHECK-NEXT: tt.split
tt.func public @rows(%a: tensor<64x64xf16>, %b: tensor<64x128xf16>, %p: tensor<128x32x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x128xf32>
  %d = tt.dot %a, %b, %z : tensor<64x64xf16> * tensor<64x128xf16> -> tensor<64x128xf32>
  %t = tt.trans %d {order = array<i32: 1, 0>} : tensor<64x128xf32> -> tensor<128x64xf32>
  %r = tt.reshape %t : tensor<128x64xf32> -> tensor<128x32x2xf32>
  %h:2 = tt.split %r : tensor<128x32x2xf32> -> tensor<128x32xf32>
  tt.store %p, %h#0 : tensor<128x32x!tt.ptr<f32>>
  tt.store %p, %h#1 : tensor<128x32x!tt.ptr<f32>>
  tt.return
}

// Joined tiles stay with the threads that loaded them, through a join of joins.
// CHECK-LABEL: @joined
// CHECK-COUNT-2: tt.load
// CHECK-NOT: ttg.convert_layout
// CHECK-COUNT-2: tt.join
// CHECK: ttg.convert_layout
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.store
tt.func public @joined(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %p = tt.addptr %s, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %v = tt.load %p : tensor<1024x!tt.ptr<f32>>
  %t = tt.splat %y : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
  %q = tt.addptr %t, %r : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %w = tt.load %q : tensor<1024x!tt.ptr<f32>>
  %e = math.exp %v : tensor<1024xf32>
  %a = tt.join %e, %w : tensor<1024xf32> -> tensor<1024x2xf32>
  %n = arith.addf %a, %a : tensor<1024x2xf32>
  %b = tt.join %n, %a : tensor<1024x2xf32> -> tensor<1024x2x2xf32>
  %z = tt.reshape %b : tensor<1024x2x2xf32> -> tensor<4096xf32>
  %r2 = tt.make_range {end = 4096 : i32, start = 0 : i32} : tensor<4096xi32>
  %u = tt.splat %o : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>>
  %m = tt.addptr %u, %r2 : tensor<4096x!tt.ptr<f32>>, tensor<4096xi32>
  tt.store %m, %z : tensor<4096x!tt.ptr<f32>>
  tt.return
}

// Both halves of a split have one layout, that in which the one that is used is wanted.
// CHECK-LABEL: @half
// CHECK: tt.split {{.*}} -> tensor<16x16xf32, #ttg.slice
// CHECK: tt.join
tt.func public @half(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %w: tensor<32x16xf32>, %p: tensor<16x16x!tt.ptr<f32>>) {
  %c = arith.constant dense<32> : tensor<16x1xi32>
  %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %e = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %f = arith.muli %e, %c : tensor<16x1xi32>
  %g = tt.broadcast %f : tensor<16x1xi32> -> tensor<16x32xi32>
  %r2 = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %i = tt.expand_dims %r2 {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %j = tt.broadcast %i : tensor<1x32xi32> -> tensor<16x32xi32>
  %k = arith.addi %g, %j : tensor<16x32xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>>
  %q = tt.addptr %s, %k : tensor<16x32x!tt.ptr<f32>>, tensor<16x32xi32>
  %v = tt.load %q : tensor<16x32x!tt.ptr<f32>>
  %b = tt.reshape %v : tensor<16x32xf32> -> tensor<16x2x16xf32>
  %t = tt.trans %b {order = array<i32: 0, 2, 1>} : tensor<16x2x16xf32> -> tensor<16x16x2xf32>
  %h:2 = tt.split %t : tensor<16x16x2xf32> -> tensor<16x16xf32>
  %u = tt.join %h#0, %h#0 : tensor<16x16xf32> -> tensor<16x16x2xf32>
  %y = tt.reshape %u : tensor<16x16x2xf32> -> tensor<16x32xf32>
  %z = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tt.dot %y, %w, %z : tensor<16x32xf32> * tensor<32x16xf32> -> tensor<16x16xf32>
  tt.store %p, %d : tensor<16x16x!tt.ptr<f32>>
  tt.return
}

// A block of a descriptor is read from shared memory in any encoding: the conversion stands at the
// load, not behind the reshape.
// CHECK-LABEL: @block
// CHECK: %[[B:.*]] = tt.descriptor_load
// CHECK: %[[C:.*]] = ttg.convert_layout %[[B]] : tensor<1x1x64xf32, {{.*}} -> tensor<1x1x64xf32, #[[L:.*]]>
// CHECK: tt.reshape %[[C]] : tensor<1x1x64xf32, #[[L]]> -> tensor<64xf32, #ttg.slice
// CHECK-NEXT: tt.expand_dims
tt.func public @block(%d: !tt.tensordesc<tensor<1x1x64xf32>>, %i: i32, %x: tensor<64x16xf16>, %w: tensor<16x64xf16>, %p: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %b = tt.descriptor_load %d[%i, %i, %i] : !tt.tensordesc<tensor<1x1x64xf32>> -> tensor<1x1x64xf32>
  %r = tt.reshape %b : tensor<1x1x64xf32> -> tensor<64xf32>
  %s = tt.dot %x, %w, %z : tensor<64x16xf16> * tensor<16x64xf16> -> tensor<64x64xf32>
  %e = tt.expand_dims %r {axis = 0 : i32} : tensor<64xf32> -> tensor<1x64xf32>
  %f = tt.broadcast %e : tensor<1x64xf32> -> tensor<64x64xf32>
  %a = arith.addf %s, %f : tensor<64x64xf32>
  tt.store %p, %a : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
