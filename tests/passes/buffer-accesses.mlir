// RUN: buffer-accesses{atomics=i32+f32},canonicalize,cse,dce

#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>
#tile = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {

// Ranges of offsets are enough; scalars go to the pointer, those in a sum too.
// CHECK-LABEL: @bounded
// CHECK: %[[I:.*]] = tt.make_range
// CHECK: %[[P:.*]] = tt.addptr %x, %row
// CHECK: %[[Q:.*]] = tt.addptr %[[P]], %n
// CHECK: %[[V:.*]] = amdg.buffer_load %[[Q]][%[[I]]], %m, %o cacheModifier = cg : !tt.ptr<f32> -> tensor<1024xf32, #blocked>
// CHECK: amdg.buffer_store %[[V]], %{{.*}}[%[[I]]], %m
tt.func public @bounded(%x: !tt.ptr<f32>, %row: i32, %n: i32, %m: tensor<1024xi1, #blocked>, %o: tensor<1024xf32, #blocked>) {
  %i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #blocked>
  %s = tt.splat %n : i32 -> tensor<1024xi32, #blocked>
  %j = arith.addi %s, %i : tensor<1024xi32, #blocked>
  %p = tt.addptr %x, %row : !tt.ptr<f32>, i32
  %q = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %r = tt.addptr %q, %j : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %v = tt.load %r, %m, %o cacheModifier = cg : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.store %r, %v, %m : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.return
}

// Offsets of which nothing is known reach memory of less than 2 GiB, with all that is added.
// CHECK-LABEL: @small
// CHECK: %[[N:.*]] = arith.trunci %n : i64 to i32
// CHECK: %[[S:.*]] = tt.splat %[[N]]
// CHECK: %[[O:.*]] = arith.addi %i, %[[S]]
// CHECK: amdg.buffer_load %x[%[[O]]] : !tt.ptr<f32>
// CHECK: tt.load
tt.func public @small(%x: !tt.ptr<f32> {tt.pointer_range = 32 : i32}, %y: !tt.ptr<f32>, %i: tensor<1024xi32, #blocked>, %n: i64) {
  %q = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %r = tt.addptr %q, %i : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %s = tt.splat %n : i64 -> tensor<1024xi64, #blocked>
  %t = tt.addptr %r, %s : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi64, #blocked>
  %v = tt.load %t : tensor<1024x!tt.ptr<f32>, #blocked>
  %a = tt.splat %y : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %b = tt.addptr %a, %i : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %w = tt.load %b : tensor<1024x!tt.ptr<f32>, #blocked>
  %u = arith.addf %v, %w : tensor<1024xf32, #blocked>
  tt.store %b, %u : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.return
}

// Numbers that are not negative go to the pointer.
// CHECK-LABEL: @not_negative
// CHECK: %[[P:.*]] = tt.addptr %x, %{{.*}} : !tt.ptr<f32>, i32
// CHECK: amdg.buffer_load %[[P]]
tt.func public @not_negative(%x: !tt.ptr<f32> {tt.pointer_range = 32 : i32}, %out: tensor<1024x!tt.ptr<f32>, #blocked>) {
  %0 = tt.get_program_id x : i32
  %c = arith.constant 1024 : i32
  %1 = arith.muli %0, %c : i32
  %i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #blocked>
  %d = arith.constant dense<4194304> : tensor<1024xi32, #blocked>
  %j = arith.muli %i, %d : tensor<1024xi32, #blocked>
  %p = tt.addptr %x, %1 : !tt.ptr<f32>, i32
  %q = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %r = tt.addptr %q, %j : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %v = tt.load %r : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.store %out, %v : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.return
}

// A loaded number is no part of the pointer.
// CHECK-LABEL: @loaded
// CHECK: %[[N:.*]] = tt.load %n
// CHECK: %[[S:.*]] = tt.splat %[[N]]
// CHECK: %[[O:.*]] = arith.addi %{{.*}}, %[[S]]
// CHECK: amdg.buffer_load %x[%[[O]]]
tt.func public @loaded(%x: !tt.ptr<f32> {tt.pointer_range = 32 : i32}, %n: !tt.ptr<i32>, %out: tensor<1024x!tt.ptr<f32>, #blocked>) {
  %k = tt.load %n : !tt.ptr<i32>
  %i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #blocked>
  %p = tt.addptr %x, %k : !tt.ptr<f32>, i32
  %q = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %r = tt.addptr %q, %i : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %v = tt.load %r : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.store %out, %v : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.return
}

// Offsets move as pointers do; an amount that a loop carries is a scalar of it.
// CHECK-LABEL: @moved
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}) -> (tensor<64x64xf32, #blocked1>, i32)
// CHECK: %[[P:.*]] = tt.addptr %x, %[[A]]
// CHECK: amdg.buffer_load %[[P]][%{{.*}}] : !tt.ptr<f32> -> tensor<64x64xf32, #blocked1>
tt.func public @moved(%x: !tt.ptr<f32>, %out: tensor<64x64x!tt.ptr<f32>, #tile>) {
  %lo = arith.constant 0 : i32
  %hi = arith.constant 8 : i32
  %st = arith.constant 1 : i32
  %step = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #tile>
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #tile}>>
  %q = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #tile}>>
  %r = tt.addptr %q, %i : tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #tile}>>, tensor<64xi32, #ttg.slice<{dim = 0, parent = #tile}>>
  %e = tt.expand_dims %r {axis = 0 : i32} : tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #tile}>> -> tensor<1x64x!tt.ptr<f32>, #tile>
  %b = tt.broadcast %e : tensor<1x64x!tt.ptr<f32>, #tile> -> tensor<64x64x!tt.ptr<f32>, #tile>
  %sum:2 = scf.for %k = %lo to %hi step %st iter_args(%s = %zero, %a = %lo) -> (tensor<64x64xf32, #tile>, i32) : i32 {
    %d = tt.splat %a : i32 -> tensor<64x64xi32, #tile>
    %p = tt.addptr %b, %d : tensor<64x64x!tt.ptr<f32>, #tile>, tensor<64x64xi32, #tile>
    %v = tt.load %p : tensor<64x64x!tt.ptr<f32>, #tile>
    %t = arith.addf %s, %v : tensor<64x64xf32, #tile>
    %n = arith.addi %a, %step : i32
    scf.yield %t, %n : tensor<64x64xf32, #tile>, i32
  }
  tt.store %out, %sum#0 : tensor<64x64x!tt.ptr<f32>, #tile>
  tt.return
}

// Atomic operations on the types that are told, but those that all devices take part in.
// CHECK-LABEL: @atomics
// CHECK: %[[V:.*]] = amdg.buffer_atomic_rmw fadd, acq_rel, gpu, %v, %x[%i], %m : !tt.ptr<f32> -> tensor<1024xf32, #blocked>
// CHECK: tt.atomic_rmw fadd, relaxed, sys
// CHECK: tt.atomic_rmw fadd, relaxed, gpu, {{.*}}tensor<1024x!tt.ptr<f16>, #blocked>
tt.func public @atomics(%x: !tt.ptr<f32> {tt.pointer_range = 32 : i32}, %y: !tt.ptr<f16> {tt.pointer_range = 32 : i32}, %i: tensor<1024xi32, #blocked>, %v: tensor<1024xf32, #blocked>, %w: tensor<1024xf16, #blocked>, %m: tensor<1024xi1, #blocked>) {
  %q = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %r = tt.addptr %q, %i : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %a = tt.atomic_rmw fadd, acq_rel, gpu, %r, %v, %m : (tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xf32, #blocked>, tensor<1024xi1, #blocked>) -> tensor<1024xf32, #blocked>
  %b = tt.atomic_rmw fadd, relaxed, sys, %r, %a : (tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xf32, #blocked>) -> tensor<1024xf32, #blocked>
  %s = tt.splat %y : !tt.ptr<f16> -> tensor<1024x!tt.ptr<f16>, #blocked>
  %t = tt.addptr %s, %i : tensor<1024x!tt.ptr<f16>, #blocked>, tensor<1024xi32, #blocked>
  %c = tt.atomic_rmw fadd, relaxed, gpu, %t, %w : (tensor<1024x!tt.ptr<f16>, #blocked>, tensor<1024xf16, #blocked>) -> tensor<1024xf16, #blocked>
  tt.return
}

// Volatile loads, scalars, and tiles of which the pointer is not known stay.
// CHECK-LABEL: @others
// CHECK-NOT: amdg
// CHECK: tt.return
tt.func public @others(%x: !tt.ptr<f32>, %y: tensor<1024x!tt.ptr<f32>, #blocked>) {
  %i = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #blocked>
  %q = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #blocked>
  %r = tt.addptr %q, %i : tensor<1024x!tt.ptr<f32>, #blocked>, tensor<1024xi32, #blocked>
  %v = tt.load %r {isVolatile = true} : tensor<1024x!tt.ptr<f32>, #blocked>
  %s = tt.load %x : !tt.ptr<f32>
  %t = tt.splat %s : f32 -> tensor<1024xf32, #blocked>
  %u = arith.addf %v, %t : tensor<1024xf32, #blocked>
  tt.store %y, %u : tensor<1024x!tt.ptr<f32>, #blocked>
  tt.return
}
}
