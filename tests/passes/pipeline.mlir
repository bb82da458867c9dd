// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},coalesce,accelerate-matmul,assign-layouts,licm,pipeline{num_stages=3},canonicalize,dce

// Two copies before the loop, one in it; each turn waits for its own. The right operand was put in
// shared memory before the loop, not by a copy, so that the product is waited for at once.
// CHECK-LABEL: @mm
// CHECK: %[[RING:.*]] = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
// CHECK: ttg.async_copy_global_to_local {{.*}} {contiguity = 8 : i32}
// CHECK-NEXT: ttg.async_commit_group
// CHECK: ttg.async_copy_global_to_local
// CHECK-NEXT: ttg.async_commit_group
// CHECK: scf.for
// CHECK: ttg.async_wait {num = 1 : i32}
// CHECK: %[[M:.*]] = ttg.memdesc_index %[[RING]]
// CHECK: ttng.warp_group_dot %[[M]],
// CHECK: tt.splat {{.*}} : i1 ->
// CHECK: ttg.async_copy_global_to_local
// CHECK-NEXT: ttg.async_commit_group
// CHECK-NEXT: scf.yield
// CHECK: ttg.async_wait {num = 0 : i32}
// CHECK-NEXT: ttg.local_dealloc %[[RING]]
tt.func public @mm(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %p0 = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %p0) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// A loop that writes what it may read later is left alone.
// CHECK-LABEL: @writes
// CHECK-NOT: ttg.async_copy
// CHECK: tt.return
tt.func public @writes(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %p0 = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %p0) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    tt.store %p, %x : tensor<64x64x!tt.ptr<f16>>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// What it writes through another argument is other memory: loads are ahead of such stores.
// CHECK-LABEL: @writes_elsewhere
// CHECK-COUNT-2: ttg.async_copy
// CHECK: scf.for
// CHECK: tt.store
// CHECK: ttg.async_copy
// CHECK: tt.return
tt.func public @writes_elsewhere(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: tensor<64x64xf16>, %w: !tt.ptr<f16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %other = tt.splat %w : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %to = tt.addptr %other, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %p0 = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %p0) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    tt.store %to, %x : tensor<64x64x!tt.ptr<f16>>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// What an atomic operation returns may tell that another program has written what comes next.
// CHECK-LABEL: @waits
// CHECK-NOT: ttg.async_copy
// CHECK: tt.return
tt.func public @waits(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: tensor<64x64xf16>, %w: !tt.ptr<f16>, %lock: !tt.ptr<i32>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %other = tt.splat %w : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %to = tt.addptr %other, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %p0 = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %p0) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %old = tt.atomic_rmw add, acq_rel, gpu, %lock, %c1 : (!tt.ptr<i32>, i32) -> i32
    tt.store %lock, %old : !tt.ptr<i32>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    tt.store %to, %x : tensor<64x64x!tt.ptr<f16>>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// The place of what is loaded is loaded too, into a register, in iterations that come alone.
// CHECK-LABEL: @indices
// CHECK: %[[IS:.*]] = arith.cmpi sgt, %n, %c0_i32
// CHECK: tt.load %{{.*}}, %[[IS]] : !tt.ptr<i32>
// CHECK: ttg.async_copy_global_to_local
// CHECK: tt.load %{{.*}}, %{{.*}} : !tt.ptr<i32>
// CHECK: ttg.async_copy_global_to_local
// CHECK: scf.for
// CHECK-NOT: tt.load
// CHECK: ttng.warp_group_dot
// CHECK: tt.load %{{.*}}, %{{.*}} : !tt.ptr<i32>
// CHECK-NOT: tt.load
// CHECK: ttg.async_copy_global_to_local
// CHECK: scf.yield
tt.func public @indices(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %table: !tt.ptr<i32>, %b: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %size = arith.constant 65536 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z) -> (tensor<64x64xf32>) : i32 {
    %place = tt.addptr %table, %i : !tt.ptr<i32>, i32
    %page = tt.load %place : !tt.ptr<i32>
    %start = arith.muli %page, %size : i32
    %first = tt.addptr %a, %start : !tt.ptr<f16>, i32
    %base = tt.splat %first : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
    %p = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %e : tensor<64x64xf32>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
