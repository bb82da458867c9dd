// RUN: convert-ttir-to-ttgir{num_warps=4 target=cuda:90},accelerate-matmul,assign-layouts,licm,warp-specialize{num_stages=3},canonicalize,cse,dce

// One channel for both loads. The product of an iteration is in flight until the next one has
// started, so that its buffers are released then, and the last ones after the loop.
// CHECK-LABEL: @product
// CHECK-DAG: %[[X:.*]] = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>
// CHECK-DAG: %[[Y:.*]] = ttg.local_alloc : () -> !ttg.memdesc<3x64x128xf16, #shared, #smem, mutable>
// CHECK: %[[FULL:.*]] = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64
// CHECK: ttng.init_barrier {{.*}}, 1 :
// CHECK: %[[EMPTY:.*]] = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64
// CHECK: ttng.init_barrier {{.*}}, 4 :
// CHECK: %[[R:.*]] = ttg.warp_specialize({{.*}}) attributes {requestedRegisters = array<i32: 24>}
// CHECK-NEXT: default {
// CHECK-NEXT: %[[Z:.*]] = ttng.warp_group_dot_wait %cst {pendings = 0 : i32}
// CHECK-NEXT: %[[L:.*]]:3 = scf.for %i = %{{.*}} to %n step {{.*}} iter_args(%{{.*}} = %[[Z]], %[[SLOT:.*]] = %c0_i32, %[[PHASE:.*]] = %c0_i32)
// CHECK-NEXT: %[[F:.*]] = ttg.memdesc_index %[[FULL]][%[[SLOT]]]
// CHECK-NEXT: ttng.wait_barrier %[[F]], %[[PHASE]]
// CHECK-NEXT: %[[A:.*]] = ttg.memdesc_index %[[X]][%[[SLOT]]]
// CHECK-NEXT: %[[B:.*]] = ttg.memdesc_index %[[Y]][%[[SLOT]]]
// CHECK-NEXT: ttng.warp_group_dot %[[A]], %[[B]], {{.*}}isAsync = true
// CHECK-NEXT: ttng.warp_group_dot_wait {{.*}} {pendings = 1 : i32}
// CHECK: %[[LATER:.*]] = arith.cmpi ne, %i, %c0_i32
// CHECK-NEXT: %[[E:.*]] = ttg.memdesc_index %[[EMPTY]]
// CHECK-NEXT: ttng.arrive_barrier %[[E]], 4, %[[LATER]] {perWarp}
// CHECK: scf.yield
// CHECK: ttng.warp_group_dot_wait %[[L]]#0 {pendings = 0 : i32}
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %n, %c0_i32
// CHECK: ttng.arrive_barrier {{.*}}, 4, %[[SOME]] {perWarp}
// CHECK: ttg.warp_yield
// CHECK: partition0({{.*}}) num_warps(1) {
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %c0_i32, %[[P:.*]] = %c1_i32)
// CHECK: ttng.wait_barrier {{.*}}, %[[P]]
// CHECK-NEXT: ttng.barrier_expect %[[BAR:.*]], 24576, %true
// CHECK: ttng.async_tma_copy_global_to_local {{.*}}, %[[BAR]], %true
// CHECK: ttng.async_tma_copy_global_to_local {{.*}}, %[[BAR]], %true
// CHECK: ttg.warp_return
// CHECK: ttng.inval_barrier
// CHECK: ttg.local_dealloc %[[X]]
tt.func public @product(%a: !tt.tensordesc<tensor<64x64xf16>>, %b: !tt.tensordesc<tensor<64x128xf16>>, %c: !tt.tensordesc<tensor<64x128xf32>>, %n: i32, %j: i32) {
  %z = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %d = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x128xf32>) : i32 {
    %k = arith.muli %i, %c64 : i32
    %x = tt.descriptor_load %a[%j, %k] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    %y = tt.descriptor_load %b[%k, %j] : !tt.tensordesc<tensor<64x128xf16>> -> tensor<64x128xf16>
    %r = tt.dot %x, %y, %acc : tensor<64x64xf16> * tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %r : tensor<64x128xf32>
  } {tt.warp_specialize = true}
  tt.descriptor_store %c[%j, %j], %d : !tt.tensordesc<tensor<64x128xf32>>, tensor<64x128xf32>
  tt.return
}

// A loop of tiles: the inner loop's slots go on from one tile to the next, in both parts. What
// the outer loop loads has one buffer, which is free after the inner loop.
// CHECK-LABEL: @tiles
// CHECK: ttg.local_alloc : () -> !ttg.memdesc<1x64x64xf16
// CHECK: ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16
// CHECK: ttg.warp_specialize
// CHECK: default {
// CHECK: scf.for %t = {{.*}} iter_args(%{{.*}} = %c0_i32, %{{.*}} = %c0_i32, %[[S:.*]] = %c0_i32, %[[P:.*]] = %c0_i32)
// CHECK: ttng.wait_barrier
// CHECK: %[[INNER:.*]]:3 = scf.for %i = {{.*}} iter_args(%{{.*}}, %[[S1:.*]] = %[[S]], %[[P1:.*]] = %[[P]])
// CHECK: ttng.wait_barrier {{.*}}, %[[P1]]
// CHECK: ttng.warp_group_dot
// CHECK: ttng.arrive_barrier {{.*}}, 4, %{{.*}} {perWarp}
// CHECK: scf.yield
// CHECK: ttng.warp_group_dot_wait %[[INNER]]#0 {pendings = 0 : i32}
// CHECK: ttng.arrive_barrier {{.*}}, 4, %{{.*}} {perWarp}
// CHECK: ttng.arrive_barrier {{.*}}, 4 {perWarp}
// CHECK: tt.descriptor_store
// CHECK: scf.yield {{.*}}, %[[INNER]]#1, %[[INNER]]#2
// CHECK: ttg.warp_yield
// CHECK: partition0
// CHECK: scf.for %t =
// CHECK: ttng.async_tma_copy_global_to_local
// CHECK: scf.for %i =
// CHECK: ttng.async_tma_copy_global_to_local
// CHECK-NOT: tt.descriptor_store
// CHECK: ttg.warp_return
tt.func public @tiles(%a: !tt.tensordesc<tensor<64x64xf16>>, %b: !tt.tensordesc<tensor<64x64xf16>>, %c: !tt.tensordesc<tensor<64x64xf32>>, %n: i32, %m: i32) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    %x = tt.descriptor_load %a[%t, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    %d = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %z) -> (tensor<64x64xf32>) : i32 {
      %y = tt.descriptor_load %b[%i, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %r = tt.dot %x, %y, %acc : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %r : tensor<64x64xf32>
    }
    tt.descriptor_store %c[%t, %c0], %d : !tt.tensordesc<tensor<64x64xf32>>, tensor<64x64xf32>
  } {tt.warp_specialize = true}
  tt.return
}

// Two loops of blocks of the same types use one ring: the second goes on with the slot and the phase
// that the first ended with, in both parts. Another type would have a ring of its own.
// CHECK-LABEL: @two_loops
// CHECK: ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16
// CHECK-NOT: ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16
// CHECK: ttg.warp_specialize
// CHECK: scf.for %t = {{.*}} iter_args(%[[S:.*]] = %c0_i32, %[[P:.*]] = %c0_i32)
// CHECK: %[[ONE:.*]]:3 = scf.for %i = {{.*}} iter_args(%{{.*}}, %{{.*}} = %[[S]], %{{.*}} = %[[P]])
// CHECK: %[[TWO:.*]]:3 = scf.for %j = {{.*}} iter_args(%{{.*}}, %{{.*}} = %[[ONE]]#1, %{{.*}} = %[[ONE]]#2)
// CHECK: scf.yield %[[TWO]]#1, %[[TWO]]#2
// CHECK: partition0
// CHECK: scf.for %t = {{.*}} iter_args(%[[S:.*]] = %c0_i32, %[[P:.*]] = %c1_i32)
// CHECK: %[[ONE:.*]]:2 = scf.for %i = {{.*}} iter_args(%{{.*}} = %[[S]], %{{.*}} = %[[P]])
// CHECK: %[[TWO:.*]]:2 = scf.for %j = {{.*}} iter_args(%{{.*}} = %[[ONE]]#0, %{{.*}} = %[[ONE]]#1)
// CHECK: scf.yield %[[TWO]]#0, %[[TWO]]#1
tt.func public @two_loops(%x: tensor<64x64xf16>, %b: !tt.tensordesc<tensor<64x64xf16>>, %c: !tt.tensordesc<tensor<64x64xf32>>, %n: i32, %m: i32) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %m step %c64 : i32 {
    %d = scf.for %i = %c0 to %t step %c64 iter_args(%acc = %z) -> (tensor<64x64xf32>) : i32 {
      %y = tt.descriptor_load %b[%i, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %r = tt.dot %x, %y, %acc : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %r : tensor<64x64xf32>
    }
    %h = arith.mulf %d, %half : tensor<64x64xf32>
    %e = scf.for %j = %t to %n step %c64 iter_args(%sum = %h) -> (tensor<64x64xf32>) : i32 {
      %w = tt.descriptor_load %b[%j, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
      %q = tt.dot %x, %w, %sum : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %q : tensor<64x64xf32>
    }
    tt.descriptor_store %c[%t, %c0], %e : !tt.tensordesc<tensor<64x64xf32>>, tensor<64x64xf32>
  } {tt.warp_specialize = true}
  tt.return
}

// CHECK-LABEL: @places_from_memory
// CHECK-NOT: ttg.warp_specialize
// CHECK: tt.not_warp_specialized = "the place of a load is computed by tt.load, which has effects"
tt.func public @places_from_memory(%a: !tt.tensordesc<tensor<64x64xf16>>, %c: !tt.tensordesc<tensor<64x64xf16>>, %p: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %q = tt.addptr %p, %i : !tt.ptr<i32>, i32
    %k = tt.load %q : !tt.ptr<i32>
    %x = tt.descriptor_load %a[%k, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    tt.descriptor_store %c[%k, %c0], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>
  } {tt.warp_specialize = true}
  tt.return
}

// CHECK-LABEL: @in_place
// CHECK: tt.not_warp_specialized = "it may write what it loads"
tt.func public @in_place(%a: !tt.tensordesc<tensor<64x64xf16>>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %x = tt.descriptor_load %a[%i, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    tt.descriptor_store %a[%c0, %i], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>
  } {tt.warp_specialize = true}
  tt.return
}

// CHECK-LABEL: @without_loads
// CHECK: tt.not_warp_specialized = "it has no loads by tensor descriptors, outside of branches, to start"
tt.func public @without_loads(%p: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %q = tt.addptr %p, %i : !tt.ptr<i32>, i32
    tt.store %q, %i : !tt.ptr<i32>
  } {tt.warp_specialize = true}
  tt.return
}

// The second product runs while the numbers of the next iteration are computed: the loop begins
// with the next iteration's first product, and each channel is released when its product has ended.
// CHECK-LABEL: @rotated
// CHECK: %[[SOME:.*]] = arith.cmpi sgt, %{{n.*}}, %c0_i32
// CHECK: scf.if %[[SOME]]
// CHECK: ttng.wait_barrier
// CHECK: ttng.warp_group_dot {{[^{]*}} : 
// CHECK: ttng.arrive_barrier
// CHECK: math.exp2
// CHECK: scf.for %{{.*}} = %{{.*}} to %n
// CHECK: ttng.wait_barrier
// CHECK-NEXT: ttg.memdesc_index
// CHECK: %[[S:.*]] = ttng.warp_group_dot {{.*}}isAsync = true
// CHECK: ttng.wait_barrier
// CHECK: %[[D:.*]] = ttng.warp_group_dot {{.*}}isAsync = true
// CHECK: ttng.warp_group_dot_wait %[[S]], {{.*}}pendings = 1
// CHECK-NEXT: ttng.arrive_barrier
// CHECK: math.exp2
// CHECK: ttng.warp_group_dot_wait %[[D]], {{.*}}pendings = 0
// CHECK-NEXT: ttng.arrive_barrier
// CHECK: arith.mulf
// CHECK: scf.yield
// CHECK: ttng.wait_barrier
// CHECK: %[[LAST:.*]] = ttng.warp_group_dot {{[^{]*}} : 
// CHECK: ttng.arrive_barrier
// CHECK: scf.yield %[[LAST]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %cst
tt.func public @rotated(%a: !tt.tensordesc<tensor<64x64xf16>>, %b: !tt.tensordesc<tensor<64x128xf16>>, %q: tensor<64x64xf16>, %n: i32) -> tensor<64x128xf32> {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %sum = arith.constant dense<0.0> : tensor<64x128xf32>
  %half = arith.constant dense<0.5> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %r = scf.for %i = %c0 to %n step %c64 iter_args(%acc = %sum) -> (tensor<64x128xf32>) : i32 {
    %x = tt.descriptor_load %a[%i, %c0] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
    %s = tt.dot %q, %x, %z : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %e = math.exp2 %s : tensor<64x64xf32>
    %p = arith.truncf %e : tensor<64x64xf32> to tensor<64x64xf16>
    %y = tt.descriptor_load %b[%i, %c0] : !tt.tensordesc<tensor<64x128xf16>> -> tensor<64x128xf16>
    %m = arith.mulf %acc, %half : tensor<64x128xf32>
    %d = tt.dot %p, %y, %m : tensor<64x64xf16> * tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %d : tensor<64x128xf32>
  } {tt.warp_specialize = true}
  tt.return %r : tensor<64x128xf32>
}
