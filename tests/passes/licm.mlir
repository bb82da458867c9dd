// RUN: licm

#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

// CHECK-LABEL: @nested
// CHECK: %[[M:.*]] = arith.muli %n, %n
// CHECK: %[[S:.*]] = tt.splat %[[M]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: tt.splat
tt.func public @nested(%n: i32, %p: tensor<8x!tt.ptr<i32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    scf.for %j = %c0 to %n step %c1 : i32 {
      %m = arith.muli %n, %n : i32
      %s = tt.splat %m : i32 -> tensor<8xi32>
      tt.store %p, %s : tensor<8x!tt.ptr<i32>>
    }
  }
  tt.return
}

// A read leaves a loop that certainly runs and writes nothing; a division one that certainly runs.
// CHECK-LABEL: @reads
// CHECK: tt.load %p
// CHECK-NEXT: arith.divsi %n, %d
// CHECK-NEXT: scf.for
// CHECK: scf.for
// CHECK-NEXT: tt.load %p
// CHECK-NEXT: arith.divsi %n, %d
// CHECK: scf.for
// CHECK-NEXT: tt.load %p
tt.func public @reads(%n: i32, %d: i32, %p: !tt.ptr<i32>) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %c0) -> (i32) : i32 {
    %a = tt.load %p : !tt.ptr<i32>
    %q = arith.divsi %n, %d : i32
    %y = arith.addi %x, %a : i32
    %z = arith.addi %y, %q : i32
    scf.yield %z : i32
  }
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%x = %r) -> (i32) : i32 {
    %a = tt.load %p : !tt.ptr<i32>
    %q = arith.divsi %n, %d : i32
    %y = arith.addi %x, %a : i32
    %z = arith.addi %y, %q : i32
    scf.yield %z : i32
  }
  scf.for %i = %c0 to %c4 step %c1 : i32 {
    %a = tt.load %p : !tt.ptr<i32>
    %y = arith.addi %a, %c1 : i32
    tt.store %p, %y : !tt.ptr<i32>
  }
  tt.return %s : i32
}

// A division by a number that is not zero may be computed in vain; not one by -1, which can overflow.
// CHECK-LABEL: @divisors
// CHECK: arith.divsi %n, %c4
// CHECK-NEXT: scf.for
// CHECK-NEXT: arith.divsi %n, %cm
tt.func public @divisors(%n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %cm = arith.constant -1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %a = arith.divsi %n, %c4 : i32
    %b = arith.divsi %n, %cm : i32
    %c = arith.addi %a, %b : i32
    tt.store %p, %c : !tt.ptr<i32>
  }
  tt.return
}

// CHECK-LABEL: @disabled
// CHECK: scf.for
// CHECK-NEXT: arith.muli
tt.func public @disabled(%n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %m = arith.muli %n, %n : i32
    tt.store %p, %m : !tt.ptr<i32>
  } {tt.disable_licm}
  tt.return
}

// Memory that nothing writes after it was filled leaves a loop; memory that may be written stays.
// CHECK-LABEL: @constant_memory
// CHECK: ttg.local_alloc %x {{.*}} -> !ttg.memdesc<16x16xf16, #shared, #smem>
// CHECK-NEXT: scf.for
// CHECK-NEXT: ttg.local_alloc %x {{.*}} -> !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
tt.func public @constant_memory(%n: i32, %x: tensor<16x16xf16, #blocked>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %a = ttg.local_alloc %x : (tensor<16x16xf16, #blocked>) -> !ttg.memdesc<16x16xf16, #shared, #smem>
    %b = ttg.local_alloc %x : (tensor<16x16xf16, #blocked>) -> !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
    %u = ttg.local_load %a : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #blocked>
    %v = ttg.local_load %b : !ttg.memdesc<16x16xf16, #shared, #smem, mutable> -> tensor<16x16xf16, #blocked>
    %w = arith.addf %u, %v : tensor<16x16xf16, #blocked>
    ttg.local_store %w, %b : tensor<16x16xf16, #blocked> -> !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
  }
  tt.return
}
