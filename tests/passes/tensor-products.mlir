// RUN: async-dots,tensor-products,canonicalize,cse,dce

#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>
#sums = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#smem = #ttg.shared_memory

// Sums stay in tensor memory while the loop runs. A product ends in the next iteration, when that
// one's has begun: each second one has the same barrier.
// CHECK-LABEL: @sum
// CHECK: %[[M:.*]] = ttng.tmem_alloc : () -> !ttg.memdesc<128x16xf32, #ttng.tensor_memory_encoding<blockM = 128, blockN = 16, colStride = 1>
// CHECK: %[[BAR:.*]] = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64,
// CHECK: ttng.tmem_store %z, %[[M]]
// CHECK: %[[N:.*]] = scf.for {{.*}} iter_args(%[[COUNT:.*]] = %c0{{.*}}) -> (i32)
// CHECK-NOT: tmem_load
// CHECK: %[[SLOT:.*]] = arith.andi %[[COUNT]], %c1
// CHECK: %[[NOW:.*]] = ttg.memdesc_index %[[BAR]][%[[SLOT]]]
// CHECK: ttng.tc_gen5_mma %a, %b, %[[M]], %true, %true, %[[NOW]][%true] {is_async}
// CHECK: %[[LAST:.*]] = arith.subi %[[COUNT]], %c1
// CHECK: %[[OLD:.*]] = arith.andi %[[LAST]], %c1
// CHECK: %[[TURN:.*]] = arith.shrsi %[[LAST]], %c1
// CHECK: %[[BEFORE:.*]] = ttg.memdesc_index %[[BAR]][%[[OLD]]]
// CHECK: %[[PHASE:.*]] = arith.andi %[[TURN]], %c1
// CHECK: ttng.wait_barrier %[[BEFORE]], %[[PHASE]] deps %a, %b
// CHECK-NEXT: gpu.barrier local
// CHECK: arith.addi %[[COUNT]], %c1
// CHECK: arith.subi %[[N]], %c1
// CHECK: ttng.wait_barrier
// CHECK-NEXT: gpu.barrier local
// CHECK-NEXT: %[[R:.*]] = ttng.tmem_load %[[M]]
// CHECK: tt.return %[[R]]
tt.func public @sum(%n: i32, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<128x16xf32, #sums>) -> tensor<128x16xf32, #sums> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<128x16xf32, #sums>) : i32 {
    %d = ttng.tensor_dot %a, %b, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
    scf.yield %d : tensor<128x16xf32, #sums>
  }
  tt.return %r : tensor<128x16xf32, #sums>
}

// What is computed from sums is stored over them; sums of zero are not. The second loop goes on with
// the sums of the first, and its scores have the memory of the first one's.
// CHECK-LABEL: @chained
// CHECK: %[[S:.*]] = ttng.tmem_alloc
// CHECK-NEXT: %[[O:.*]] = ttng.tmem_alloc
// CHECK-NOT: tmem_alloc
// CHECK: ttng.tmem_store %z, %[[O]]
// CHECK: scf.for
// CHECK: ttng.tc_gen5_mma %a, %b, %[[S]], %false
// CHECK: ttng.wait_barrier
// CHECK: %[[E:.*]] = ttng.tmem_load %[[S]]
// CHECK: %[[ACC:.*]] = ttng.tmem_load %[[O]]
// CHECK: %[[X:.*]] = arith.mulf %[[ACC]], %[[E]]
// CHECK: ttng.tmem_store %[[X]], %[[O]]
// CHECK: ttng.tc_gen5_mma %a, %b, %[[O]], %true
// CHECK: scf.yield
// CHECK-NOT: tmem_store
// CHECK: scf.for
// CHECK: ttng.tc_gen5_mma %a, %b, %[[S]], %false
// CHECK: ttng.tc_gen5_mma %a, %b, %[[O]], %true
// CHECK: ttng.tmem_load %[[O]]
tt.func public @chained(%n: i32, %a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %z: tensor<128x16xf32, #sums>) -> tensor<128x16xf32, #sums> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = arith.constant dense<0.0> : tensor<128x16xf32, #sums>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z) -> (tensor<128x16xf32, #sums>) : i32 {
    %s = ttng.tensor_dot %a, %b, %none {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
    %x = arith.mulf %acc, %s : tensor<128x16xf32, #sums>
    %d = ttng.tensor_dot %a, %b, %x {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
    scf.yield %d : tensor<128x16xf32, #sums>
  }
  %q = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %r) -> (tensor<128x16xf32, #sums>) : i32 {
    %s = ttng.tensor_dot %a, %b, %none {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
    %x = arith.mulf %acc, %s : tensor<128x16xf32, #sums>
    %d = ttng.tensor_dot %a, %b, %x {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
    scf.yield %d : tensor<128x16xf32, #sums>
  }
  tt.return %q : tensor<128x16xf32, #sums>
}

// Two products go on from the same sums: no memory can hold both, so that each product has its own
// operand stored.
// CHECK-LABEL: @twice
// CHECK: ttng.tc_gen5_mma %a, %b, %[[M:.*]], %false
// CHECK: %[[D:.*]] = ttng.tmem_load %[[M]]
// CHECK: ttng.tmem_store %[[D]], %[[P:.*]], %true
// CHECK: ttng.tc_gen5_mma %a, %b, %[[P]], %true
// CHECK: ttng.tmem_load %[[P]]
// CHECK: ttng.tmem_store %[[D]], %[[Q:.*]], %true
// CHECK: ttng.tc_gen5_mma %a, %b, %[[Q]], %true
tt.func public @twice(%a: !ttg.memdesc<128x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>) -> (tensor<128x16xf32, #sums>, tensor<128x16xf32, #sums>) {
  %none = arith.constant dense<0.0> : tensor<128x16xf32, #sums>
  %d = ttng.tensor_dot %a, %b, %none {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
  %p = ttng.tensor_dot %a, %b, %d {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
  %q = ttng.tensor_dot %a, %b, %d {inputPrecision = 0 : i32} : !ttg.memdesc<128x16xf16, #shared, #smem> * !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<128x16xf32, #sums>
  tt.return %p, %q : tensor<128x16xf32, #sums>, tensor<128x16xf32, #sums>
}
