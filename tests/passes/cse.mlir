// RUN: cse

#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

// CHECK-LABEL: @merges
tt.func public @merges(%x: i32, %y: i32, %p: !tt.ptr<i32>) {
  // CHECK: %[[A:.*]] = arith.addi %x, %y : i32
  %a = arith.addi %x, %y : i32
  // CHECK-NOT: arith.addi %y
  %b = arith.addi %y, %x : i32
  // CHECK: arith.subi %x, %y
  %c = arith.subi %x, %y : i32
  // CHECK: arith.subi %y, %x
  %d = arith.subi %y, %x : i32
  // CHECK: tt.store %p, %[[A]]
  // CHECK: tt.store %p, %[[A]]
  tt.store %p, %a : !tt.ptr<i32>
  tt.store %p, %b : !tt.ptr<i32>
  tt.store %p, %c : !tt.ptr<i32>
  tt.store %p, %d : !tt.ptr<i32>
  tt.return
}

// CHECK-LABEL: @reads
tt.func public @reads(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>) {
  // CHECK: %[[A:.*]] = tt.load %p
  %a = tt.load %p : !tt.ptr<i32>
  // CHECK-NEXT: arith.addi %[[A]], %[[A]]
  %b = tt.load %p : !tt.ptr<i32>
  %c = arith.addi %a, %b : i32
  // CHECK-NEXT: tt.store
  tt.store %q, %c : !tt.ptr<i32>
  // CHECK-NEXT: %[[D:.*]] = tt.load %p
  %d = tt.load %p : !tt.ptr<i32>
  // CHECK-NEXT: tt.store %q, %[[D]]
  tt.store %q, %d : !tt.ptr<i32>
  // CHECK: tt.load %p {isVolatile = true}
  // CHECK: tt.load %p {isVolatile = true}
  %e = tt.load %p {isVolatile = true} : !tt.ptr<i32>
  %f = tt.load %p {isVolatile = true} : !tt.ptr<i32>
  %g = arith.addi %e, %f : i32
  tt.store %q, %g : !tt.ptr<i32>
  tt.return
}

// A value of a loop's body is not there after it, one from before it is there inside; a read in a
// loop that writes is not the read before it.
// CHECK-LABEL: @regions
tt.func public @regions(%n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // CHECK: %[[A:.*]] = arith.muli %n, %n
  %a = arith.muli %n, %n : i32
  // CHECK: tt.load
  %l = tt.load %p : !tt.ptr<i32>
  // CHECK: scf.for
  scf.for %i = %c0 to %n step %c1 : i32 {
    // CHECK-NOT: arith.muli
    %b = arith.muli %n, %n : i32
    // CHECK: tt.load
    %m = tt.load %p : !tt.ptr<i32>
    %s = arith.addi %m, %b : i32
    // CHECK: arith.subi
    %d = arith.subi %n, %c1 : i32
    %t = arith.addi %s, %d : i32
    tt.store %p, %t : !tt.ptr<i32>
  }
  // CHECK: arith.subi
  %e = arith.subi %n, %c1 : i32
  %u = arith.addi %e, %l : i32
  %v = arith.addi %u, %a : i32
  tt.store %p, %v : !tt.ptr<i32>
  tt.return
}

// Ops with equal regions are equal.
// CHECK-LABEL: @reductions
tt.func public @reductions(%x: tensor<8xf32>, %p: !tt.ptr<f32>) {
  // CHECK: tt.reduce
  // CHECK: arith.addf
  %a = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %s = arith.addf %u, %v : f32
    tt.reduce.return %s : f32
  }) : (tensor<8xf32>) -> f32
  // CHECK-NOT: arith.addf
  %b = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %s = arith.addf %u, %v : f32
    tt.reduce.return %s : f32
  }) : (tensor<8xf32>) -> f32
  // CHECK: tt.reduce"
  // CHECK: arith.maximumf
  %c = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %s = arith.maximumf %u, %v : f32
    tt.reduce.return %s : f32
  }) : (tensor<8xf32>) -> f32
  tt.store %p, %a : !tt.ptr<f32>
  tt.store %p, %b : !tt.ptr<f32>
  tt.store %p, %c : !tt.ptr<f32>
  tt.return
}

// Two allocations with the same contents that never change are one, unless it is freed between.
// CHECK-LABEL: @constant_memory
// CHECK: %[[M:.*]] = ttg.local_alloc %x
// CHECK-NEXT: %[[A:.*]] = ttg.local_load %[[M]]
// CHECK-NEXT: ttg.local_store %[[A]], %out
// CHECK-NEXT: ttg.local_load %[[M]]
// CHECK: ttg.local_alloc %y
// CHECK: ttg.local_dealloc
// CHECK: ttg.local_alloc %y
tt.func public @constant_memory(%x: tensor<16x16xf16, #blocked>, %y: tensor<16x16xf16, #blocked>, %out: !ttg.memdesc<16x16xf16, #shared, #smem, mutable>) {
  %a = ttg.local_alloc %x : (tensor<16x16xf16, #blocked>) -> !ttg.memdesc<16x16xf16, #shared, #smem>
  %u = ttg.local_load %a : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #blocked>
  ttg.local_store %u, %out : tensor<16x16xf16, #blocked> -> !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
  %b = ttg.local_alloc %x : (tensor<16x16xf16, #blocked>) -> !ttg.memdesc<16x16xf16, #shared, #smem>
  %v = ttg.local_load %b : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #blocked>
  ttg.local_store %v, %out : tensor<16x16xf16, #blocked> -> !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
  %c = ttg.local_alloc %y : (tensor<16x16xf16, #blocked>) -> !ttg.memdesc<16x16xf16, #shared, #smem>
  %s = ttg.local_load %c : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #blocked>
  ttg.local_dealloc %c : !ttg.memdesc<16x16xf16, #shared, #smem>
  %d = ttg.local_alloc %y : (tensor<16x16xf16, #blocked>) -> !ttg.memdesc<16x16xf16, #shared, #smem>
  %t = ttg.local_load %d : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #blocked>
  %w = arith.addf %s, %t : tensor<16x16xf16, #blocked>
  ttg.local_store %w, %out : tensor<16x16xf16, #blocked> -> !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
  tt.return
}
