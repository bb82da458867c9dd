// RUN: double-buffer-sums,canonicalize,cse,dce

#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#sums = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 16, colStride = 1>
#smem = #ttg.shared_memory

// The sums of a tile are stored when the first product of the next one has begun, in the other
// tile; those of the last tile after the loop.
// CHECK-LABEL: @alternate
// CHECK: %[[M:.*]] = ttng.tmem_alloc : () -> !ttg.memdesc<2x128x16xf32
// CHECK-NOT: tmem_store
// CHECK: %[[R:.*]]:6 = scf.for %[[I:.*]] = %c0{{.*}} to %n {{.*}}iter_args(%k = %c0_i32, %[[BEGINS:.*]] = %true, %[[SLOT:.*]] = %c0_i32, %[[OLD:.*]] = %0, %slot = %0, %[[COUNT:.*]] = %0)
// CHECK: %[[NOW:.*]] = ttg.memdesc_index %[[M]][%[[SLOT]]]
// CHECK: %[[USE:.*]] = arith.xori %[[BEGINS]], %true
// CHECK: ttng.tc_gen5_mma %a, %b, %[[NOW]], %[[USE]], %true
// CHECK: ttng.wait_barrier
// CHECK-NEXT: gpu.barrier local
// CHECK: %[[LATER:.*]] = arith.cmpi ne, %[[I]], %c0
// CHECK: %[[READ:.*]] = arith.andi %[[BEGINS]], %[[LATER]]
// CHECK: scf.if %[[READ]] {
// CHECK: %[[O:.*]] = arith.xori %[[SLOT]], %c1
// CHECK: %[[OTHER:.*]] = ttg.memdesc_index %[[M]][%[[O]]]
// CHECK: ttng.wait_barrier
// CHECK: %[[SUMS:.*]] = ttng.tmem_load %[[OTHER]]
// CHECK-NEXT: tt.addptr %p, %[[OLD]]
// CHECK: tt.store %{{.*}}, %[[SUMS]]
// CHECK-NOT: tmem_store
// CHECK: %[[FLIP:.*]] = arith.extui %last
// CHECK: %[[NEXT:.*]] = arith.xori %[[SLOT]], %[[FLIP]]
// CHECK: scf.yield %{{.*}}, %last, %[[NEXT]]
// CHECK: scf.if
// CHECK: %[[O:.*]] = arith.xori %[[R]]#2, %c1
// CHECK: %[[OTHER:.*]] = ttg.memdesc_index %[[M]][%[[O]]]
// CHECK: ttng.tmem_load %[[OTHER]]
// CHECK: ttg.local_dealloc
tt.func public @alternate(%n: i32, %p: !tt.ptr<f32>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared1, #smem>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %true = arith.constant true
  %zero = arith.constant dense<0.000000e+00> : tensor<128x16xf32, #sums>
  %m = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %bars = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> (i32) : i32 {
    %slot = arith.andi %k, %c1 : i32
    %done = ttg.memdesc_index %bars[%slot] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.tc_gen5_mma %a, %b, %m, %true, %true, %done[%true] {is_async} : !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>, !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>
    %before = arith.subi %k, %c1 : i32
    %old = arith.andi %before, %c1 : i32
    %turn = arith.shrsi %before, %c1 : i32
    %phase = arith.andi %turn, %c1 : i32
    %ended = ttg.memdesc_index %bars[%old] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.wait_barrier %ended, %phase deps %a, %b : !ttg.memdesc<1xi64, #bar, #smem, mutable>, !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>
    gpu.barrier local
    %rest = arith.remsi %i, %c3 : i32
    %last = arith.cmpi eq, %rest, %c1 : i32
    scf.if %last {
      %t = arith.shrsi %k, %c1 : i32
      %now = arith.andi %t, %c1 : i32
      ttng.wait_barrier %done, %now : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      gpu.barrier local
      %d = ttng.tmem_load %m : !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x16xf32, #sums>
      %to = tt.addptr %p, %i : !tt.ptr<f32>, i32
      %ps = tt.splat %to : !tt.ptr<f32> -> tensor<128x16x!tt.ptr<f32>, #sums>
      tt.store %ps, %d : tensor<128x16x!tt.ptr<f32>, #sums>
      ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %k1 : i32
  }
  ttg.local_dealloc %bars : !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  tt.return
}

// The hint keeps one tile.
// CHECK-LABEL: @forbidden
// CHECK: %[[M:.*]] = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32
// CHECK: ttng.tc_gen5_mma %a, %b, %[[M]], %true
// CHECK: ttng.tmem_load %[[M]]
// CHECK-NEXT: tt.addptr
tt.func public @forbidden(%n: i32, %p: !tt.ptr<f32>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared1, #smem>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %true = arith.constant true
  %zero = arith.constant dense<0.000000e+00> : tensor<128x16xf32, #sums>
  %m = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %bars = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> (i32) : i32 {
    %slot = arith.andi %k, %c1 : i32
    %done = ttg.memdesc_index %bars[%slot] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.tc_gen5_mma %a, %b, %m, %true, %true, %done[%true] {is_async} : !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>, !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>
    %before = arith.subi %k, %c1 : i32
    %old = arith.andi %before, %c1 : i32
    %turn = arith.shrsi %before, %c1 : i32
    %phase = arith.andi %turn, %c1 : i32
    %ended = ttg.memdesc_index %bars[%old] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.wait_barrier %ended, %phase deps %a, %b : !ttg.memdesc<1xi64, #bar, #smem, mutable>, !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>
    gpu.barrier local
    %rest = arith.remsi %i, %c3 : i32
    %last = arith.cmpi eq, %rest, %c1 : i32
    scf.if %last {
      %t = arith.shrsi %k, %c1 : i32
      %now = arith.andi %t, %c1 : i32
      ttng.wait_barrier %done, %now : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      gpu.barrier local
      %d = ttng.tmem_load %m : !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x16xf32, #sums>
      %to = tt.addptr %p, %i : !tt.ptr<f32>, i32
      %ps = tt.splat %to : !tt.ptr<f32> -> tensor<128x16x!tt.ptr<f32>, #sums>
      tt.store %ps, %d : tensor<128x16x!tt.ptr<f32>, #sums>
      ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %k1 : i32
  } {tt.disallow_acc_multi_buffer}
  ttg.local_dealloc %bars : !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  tt.return
}

// With one barrier a wait for the product before could be for the one after.
// CHECK-LABEL: @one_barrier
// CHECK: %[[M:.*]] = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32
// CHECK: ttng.tc_gen5_mma %a, %b, %[[M]], %true
// CHECK: ttng.tmem_load %[[M]]
// CHECK-NEXT: tt.addptr
tt.func public @one_barrier(%n: i32, %p: !tt.ptr<f32>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared1, #smem>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %true = arith.constant true
  %zero = arith.constant dense<0.000000e+00> : tensor<128x16xf32, #sums>
  %m = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %bars = ttg.local_alloc : () -> !ttg.memdesc<1x1xi64, #bar, #smem, mutable>
  ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> (i32) : i32 {
    %slot = arith.andi %k, %c0 : i32
    %done = ttg.memdesc_index %bars[%slot] : !ttg.memdesc<1x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.tc_gen5_mma %a, %b, %m, %true, %true, %done[%true] {is_async} : !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>, !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>
    %before = arith.subi %k, %c1 : i32
    %old = arith.andi %before, %c0 : i32
    %turn = arith.shrsi %before, %c1 : i32
    %phase = arith.andi %turn, %c1 : i32
    %ended = ttg.memdesc_index %bars[%old] : !ttg.memdesc<1x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.wait_barrier %ended, %phase deps %a, %b : !ttg.memdesc<1xi64, #bar, #smem, mutable>, !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>
    gpu.barrier local
    %rest = arith.remsi %i, %c3 : i32
    %last = arith.cmpi eq, %rest, %c1 : i32
    scf.if %last {
      %t = arith.shrsi %k, %c1 : i32
      %now = arith.andi %t, %c1 : i32
      ttng.wait_barrier %done, %now : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      gpu.barrier local
      %d = ttng.tmem_load %m : !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x16xf32, #sums>
      %to = tt.addptr %p, %i : !tt.ptr<f32>, i32
      %ps = tt.splat %to : !tt.ptr<f32> -> tensor<128x16x!tt.ptr<f32>, #sums>
      tt.store %ps, %d : tensor<128x16x!tt.ptr<f32>, #sums>
      ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %k1 : i32
  }
  ttg.local_dealloc %bars : !ttg.memdesc<1x1xi64, #bar, #smem, mutable>
  tt.return
}

// The branch's store would pass one of the next iteration.
// CHECK-LABEL: @loads
// CHECK: %[[M:.*]] = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32
// CHECK: ttng.tc_gen5_mma %a, %b, %[[M]], %true
// CHECK: ttng.tmem_load %[[M]]
// CHECK-NEXT: tt.addptr
tt.func public @loads(%n: i32, %p: !tt.ptr<f32>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared1, #smem>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %true = arith.constant true
  %zero = arith.constant dense<0.000000e+00> : tensor<128x16xf32, #sums>
  %m = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %bars = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> (i32) : i32 {
    %slot = arith.andi %k, %c1 : i32
    %done = ttg.memdesc_index %bars[%slot] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.tc_gen5_mma %a, %b, %m, %true, %true, %done[%true] {is_async} : !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>, !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>
    %before = arith.subi %k, %c1 : i32
    %old = arith.andi %before, %c1 : i32
    %turn = arith.shrsi %before, %c1 : i32
    %phase = arith.andi %turn, %c1 : i32
    %ended = ttg.memdesc_index %bars[%old] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.wait_barrier %ended, %phase deps %a, %b : !ttg.memdesc<1xi64, #bar, #smem, mutable>, !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>
    gpu.barrier local
    %x = tt.load %p : !tt.ptr<f32>
    tt.store %p, %x : !tt.ptr<f32>
    %rest = arith.remsi %i, %c3 : i32
    %last = arith.cmpi eq, %rest, %c1 : i32
    scf.if %last {
      %t = arith.shrsi %k, %c1 : i32
      %now = arith.andi %t, %c1 : i32
      ttng.wait_barrier %done, %now : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      gpu.barrier local
      %d = ttng.tmem_load %m : !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x16xf32, #sums>
      %to = tt.addptr %p, %i : !tt.ptr<f32>, i32
      %ps = tt.splat %to : !tt.ptr<f32> -> tensor<128x16x!tt.ptr<f32>, #sums>
      tt.store %ps, %d : tensor<128x16x!tt.ptr<f32>, #sums>
      ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    tt.store %p, %x : !tt.ptr<f32>
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %k1 : i32
  }
  ttg.local_dealloc %bars : !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  tt.return
}

// No memory for a second tile.
// CHECK-LABEL: @full
// CHECK: %[[M:.*]] = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32
// CHECK: ttng.tc_gen5_mma %a, %b, %[[M]], %true
// CHECK: ttng.tmem_load %[[M]]
// CHECK-NEXT: tt.addptr
tt.func public @full(%n: i32, %p: !tt.ptr<f32>, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared1, #smem>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %true = arith.constant true
  %zero = arith.constant dense<0.000000e+00> : tensor<128x16xf32, #sums>
  %m = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %more = ttng.tmem_alloc : () -> !ttg.memdesc<31x128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %bars = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> (i32) : i32 {
    %slot = arith.andi %k, %c1 : i32
    %done = ttg.memdesc_index %bars[%slot] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.tc_gen5_mma %a, %b, %m, %true, %true, %done[%true] {is_async} : !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>, !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<1xi64, #bar, #smem, mutable>
    %before = arith.subi %k, %c1 : i32
    %old = arith.andi %before, %c1 : i32
    %turn = arith.shrsi %before, %c1 : i32
    %phase = arith.andi %turn, %c1 : i32
    %ended = ttg.memdesc_index %bars[%old] : !ttg.memdesc<2x1xi64, #bar, #smem, mutable> -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    ttng.wait_barrier %ended, %phase deps %a, %b : !ttg.memdesc<1xi64, #bar, #smem, mutable>, !ttg.memdesc<128x16xf16, #shared, #smem>, !ttg.memdesc<16x16xf16, #shared1, #smem>
    gpu.barrier local
    %rest = arith.remsi %i, %c3 : i32
    %last = arith.cmpi eq, %rest, %c1 : i32
    scf.if %last {
      %t = arith.shrsi %k, %c1 : i32
      %now = arith.andi %t, %c1 : i32
      ttng.wait_barrier %done, %now : !ttg.memdesc<1xi64, #bar, #smem, mutable>
      gpu.barrier local
      %d = ttng.tmem_load %m : !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x16xf32, #sums>
      %to = tt.addptr %p, %i : !tt.ptr<f32>, i32
      %ps = tt.splat %to : !tt.ptr<f32> -> tensor<128x16x!tt.ptr<f32>, #sums>
      tt.store %ps, %d : tensor<128x16x!tt.ptr<f32>, #sums>
      ttng.tmem_store %zero, %m, %true : tensor<128x16xf32, #sums> -> !ttg.memdesc<128x16xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    %k1 = arith.addi %k, %c1 : i32
    scf.yield %k1 : i32
  }
  ttg.local_dealloc %bars : !ttg.memdesc<2x1xi64, #bar, #smem, mutable>
  tt.return
}
