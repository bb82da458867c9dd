// RUN: async-dots

#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 16, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

// The only product of a loop goes on while the next iteration begins; it ends before that one ends.
// CHECK-LABEL: @alone
// CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %z)
// CHECK-NEXT: %[[D:.*]] = ttng.warp_group_dot %a, %b, %[[ACC]] {{.*}}isAsync = true
// CHECK-NEXT: %[[W:.*]]:3 = ttng.warp_group_dot_wait %[[D]], %a, %b {pendings = 1 : i32}
// CHECK-NEXT: scf.yield %[[W]]#0
// CHECK: ttng.warp_group_dot_wait %[[R]] {pendings = 0 : i32}
// CHECK-NEXT: tt.return
tt.func public @alone(%n: i32, %a: !ttg.memdesc<64x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %d = ttng.warp_group_dot %a, %b, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// The scores are waited for where they are used; the wait for them ends the product of the iteration
// before as well, whose accumulator something else than a product reads.
// CHECK-LABEL: @attention
// CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %z)
// CHECK-NEXT: %[[S:.*]] = ttng.warp_group_dot %q, %k, %z {{.*}}isAsync = true
// CHECK-NEXT: %[[W:.*]]:4 = ttng.warp_group_dot_wait %[[ACC]], %[[S]], %q, %k {pendings = 0 : i32}
// CHECK-NEXT: %[[E:.*]] = math.exp2 %[[W]]#1
// CHECK: %[[O:.*]] = arith.mulf %[[W]]#0, %[[E]]
// CHECK: %[[D:.*]] = ttng.warp_group_dot %{{.*}}, %k, %[[O]] {{.*}}isAsync = true
// CHECK-NEXT: scf.yield %[[D]]
// CHECK: ttng.warp_group_dot_wait %[[R]] {pendings = 0 : i32}
tt.func public @attention(%n: i32, %q: !ttg.memdesc<64x16xf16, #shared, #smem>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %s = ttng.warp_group_dot %q, %k, %z {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %e = math.exp2 %s : tensor<64x16xf32, #mma>
    %h = arith.truncf %e : tensor<64x16xf32, #mma> to tensor<64x16xf16, #mma>
    %p = ttg.convert_layout %h : tensor<64x16xf16, #mma> -> tensor<64x16xf16, #left>
    %o = arith.mulf %acc, %e : tensor<64x16xf32, #mma>
    %d = ttng.warp_group_dot %p, %k, %o {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// The second product needs nothing of the first: both begin at once, and one may go on while the
// other's result is used.
// CHECK-LABEL: @both
// CHECK: scf.for
// CHECK-NEXT: %[[S:.*]] = ttng.warp_group_dot %q, %k,
// CHECK-NEXT: %[[T:.*]] = ttng.warp_group_dot %v, %k,
// CHECK-NEXT: %[[W:.*]]:3 = ttng.warp_group_dot_wait %[[S]], %q, %k {pendings = 1 : i32}
// CHECK-NEXT: math.exp2 %[[W]]#0
// CHECK-NEXT: %[[V:.*]]:3 = ttng.warp_group_dot_wait %[[T]], %v, %k {pendings = 0 : i32}
// CHECK-NEXT: arith.mulf %{{.*}}, %[[V]]#0
tt.func public @both(%n: i32, %q: !ttg.memdesc<64x16xf16, #shared, #smem>, %v: !ttg.memdesc<64x16xf16, #shared, #smem>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %s = ttng.warp_group_dot %q, %k, %z {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %e = math.exp2 %s : tensor<64x16xf32, #mma>
    %t = ttng.warp_group_dot %v, %k, %z {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %m = arith.mulf %e, %t : tensor<64x16xf32, #mma>
    %a = arith.addf %sum, %m : tensor<64x16xf32, #mma>
    scf.yield %a : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// Memory of the loop's body and registers that the next iteration writes at once must not be read
// any more then: the products end in their iteration.
// CHECK-LABEL: @inside
// CHECK: scf.for
// CHECK: %[[M:.*]] = ttg.local_alloc
// CHECK: %[[D:.*]] = ttng.warp_group_dot %[[M]], %k,
// CHECK-NEXT: %[[W:.*]]:3 = ttng.warp_group_dot_wait %[[D]], %[[M]], %k {pendings = 0 : i32}
// CHECK-NEXT: scf.yield %[[W]]#0
// CHECK: scf.for
// CHECK: %[[P:.*]] = ttg.convert_layout
// CHECK: %[[D:.*]] = ttng.warp_group_dot %[[P]], %k,
// CHECK-NEXT: %[[W:.*]]:2 = ttng.warp_group_dot_wait %[[D]], %k {pendings = 0 : i32}
// CHECK-NEXT: scf.yield %[[W]]#0
// CHECK-NOT: ttng.warp_group_dot_wait
tt.func public @inside(%n: i32, %x: tensor<64x16x!tt.ptr<f16>, #blocked>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> (tensor<64x16xf32, #mma>, tensor<64x16xf32, #mma>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %l = tt.load %x : tensor<64x16x!tt.ptr<f16>, #blocked>
    %m = ttg.local_alloc %l : (tensor<64x16xf16, #blocked>) -> !ttg.memdesc<64x16xf16, #shared, #smem>
    %d = ttng.warp_group_dot %m, %k, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %l = tt.load %x : tensor<64x16x!tt.ptr<f16>, #blocked>
    %p = ttg.convert_layout %l : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %p, %k, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d : tensor<64x16xf32, #mma>
  }
  tt.return %r, %s : tensor<64x16xf32, #mma>, tensor<64x16xf32, #mma>
}

// Of several products those fly into the next iteration that begin after the last one that may not:
// here one that reads memory of the loop's body. The flying accumulator has passed a wait before.
// CHECK-LABEL: @after
// CHECK: %[[I:.*]] = ttng.warp_group_dot_wait %z {pendings = 0 : i32}
// CHECK-NEXT: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[FIRST:.*]] = %z, %[[LAST:.*]] = %[[I]])
// CHECK: %[[M:.*]] = ttg.local_alloc
// CHECK: %[[D:.*]] = ttng.warp_group_dot %[[M]], %k, %[[FIRST]]
// CHECK: %[[E:.*]] = ttng.warp_group_dot %q, %k, %[[LAST]]
// CHECK-NEXT: %[[V:.*]]:3 = ttng.warp_group_dot_wait %[[E]], %q, %k {pendings = 2 : i32}
// CHECK-NEXT: %[[W:.*]]:3 = ttng.warp_group_dot_wait %[[D]], %[[M]], %k {pendings = 1 : i32}
// CHECK-NEXT: scf.yield %[[W]]#0, %[[V]]#0
// CHECK: }
// CHECK-NEXT: ttng.warp_group_dot_wait %[[R]]#1 {pendings = 0 : i32}
tt.func public @after(%n: i32, %x: tensor<64x16x!tt.ptr<f16>, #blocked>, %q: !ttg.memdesc<64x16xf16, #shared, #smem>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> (tensor<64x16xf32, #mma>, tensor<64x16xf32, #mma>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%first = %z, %last = %z) -> (tensor<64x16xf32, #mma>, tensor<64x16xf32, #mma>) : i32 {
    %l = tt.load %x : tensor<64x16x!tt.ptr<f16>, #blocked>
    %m = ttg.local_alloc %l : (tensor<64x16xf16, #blocked>) -> !ttg.memdesc<64x16xf16, #shared, #smem>
    %d = ttng.warp_group_dot %m, %k, %first {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %e = ttng.warp_group_dot %q, %k, %last {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %d, %e : tensor<64x16xf32, #mma>, tensor<64x16xf32, #mma>
  }
  tt.return %r#0, %r#1 : tensor<64x16xf32, #mma>, tensor<64x16xf32, #mma>
}

// A product whose left operand is computed after another product has begun goes on while the next
// iteration computes that one's operand; it ends before its own operand is computed again, of which
// the sources pass the wait. The other one ends in its iteration.
// CHECK-LABEL: @halves
// CHECK: %[[I:.*]] = ttng.warp_group_dot_wait %z {pendings = 0 : i32}
// CHECK-NEXT: %[[R:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[I]])
// CHECK: %[[W:.*]] = ttg.convert_layout
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[W]], %[[W]]
// CHECK-NEXT: %[[D:.*]] = ttng.warp_group_dot %[[P]], %k, %[[ACC]]
// CHECK-NEXT: %[[A:.*]]:3 = ttng.warp_group_dot_wait %[[D]], %[[W]], %k {pendings = 1 : i32}
// CHECK-NEXT: %[[Q:.*]] = arith.addf %[[A]]#1, %[[A]]#1
// CHECK-NEXT: %[[E:.*]] = ttng.warp_group_dot %[[Q]], %k, %[[A]]#0
// CHECK-NEXT: %[[V:.*]]:2 = ttng.warp_group_dot_wait %[[E]], %k {pendings = 1 : i32}
// CHECK-NEXT: scf.yield %[[V]]#0
// CHECK: }
// CHECK-NEXT: ttng.warp_group_dot_wait %[[R]] {pendings = 0 : i32}
tt.func public @halves(%n: i32, %x: tensor<64x16x!tt.ptr<f16>, #blocked>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %l = tt.load %x : tensor<64x16x!tt.ptr<f16>, #blocked>
    %w = ttg.convert_layout %l : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %p = arith.mulf %w, %w : tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %p, %k, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %q = arith.addf %w, %w : tensor<64x16xf16, #left>
    %e = ttng.warp_group_dot %q, %k, %d {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %e : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// A second operand that is there before the first product has begun, or that only moves what is
// there, is written before the wait could come: both products end in their iteration.
// CHECK-LABEL: @early
// CHECK: scf.for
// CHECK: %[[D:.*]] = ttng.warp_group_dot
// CHECK-NEXT: %[[E:.*]] = ttng.warp_group_dot
// CHECK-NEXT: %[[W:.*]]:2 = ttng.warp_group_dot_wait %[[E]], %k {pendings = 0 : i32}
// CHECK-NEXT: scf.yield %[[W]]#0
tt.func public @early(%n: i32, %x: tensor<64x16x!tt.ptr<f16>, #blocked>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %l = tt.load %x : tensor<64x16x!tt.ptr<f16>, #blocked>
    %w = ttg.convert_layout %l : tensor<64x16xf16, #blocked> -> tensor<64x16xf16, #left>
    %p = arith.mulf %w, %w : tensor<64x16xf16, #left>
    %q = arith.addf %w, %w : tensor<64x16xf16, #left>
    %d = ttng.warp_group_dot %p, %k, %acc {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %e = ttng.warp_group_dot %q, %k, %d {inputPrecision = 0 : i32} : tensor<64x16xf16, #left> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %e : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}

// A product that reads memory of the loop's body ends in its iteration, though it is known only as
// what another one, which goes on, adds to.
// CHECK-LABEL: @chain
// CHECK: scf.for
// CHECK: %[[M:.*]] = ttg.local_alloc
// CHECK: %[[D:.*]] = ttng.warp_group_dot %[[M]], %k,
// CHECK-NEXT: %[[E:.*]] = ttng.warp_group_dot %q, %k, %[[D]]
// CHECK: %[[W:.*]]:3 = ttng.warp_group_dot_wait %{{.*}}, %[[M]], %k {pendings = 1 : i32}
// CHECK-NEXT: scf.yield %[[W]]#0
tt.func public @chain(%n: i32, %x: tensor<64x16x!tt.ptr<f16>, #blocked>, %q: !ttg.memdesc<64x16xf16, #shared, #smem>, %k: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<64x16xf32, #mma>) : i32 {
    %l = tt.load %x : tensor<64x16x!tt.ptr<f16>, #blocked>
    %m = ttg.local_alloc %l : (tensor<64x16xf16, #blocked>) -> !ttg.memdesc<64x16xf16, #shared, #smem>
    %d = ttng.warp_group_dot %m, %k, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    %e = ttng.warp_group_dot %q, %k, %d {inputPrecision = 0 : i32} : !ttg.memdesc<64x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<64x16xf32, #mma>
    scf.yield %e : tensor<64x16xf32, #mma>
  }
  tt.return %r : tensor<64x16xf32, #mma>
}
