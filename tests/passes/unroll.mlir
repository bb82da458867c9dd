// RUN: unroll

// CHECK-LABEL: @dynamic
// CHECK: %[[MIDDLE:.*]] = arith.addi %lo,
// CHECK: scf.for %i = %lo to %[[MIDDLE]] step
// CHECK-COUNT-2: tt.store
// CHECK-NOT: tt.loop_unroll_factor
// CHECK: scf.for %i = %[[MIDDLE]] to %hi step %s
// CHECK-NEXT: tt.store
// CHECK-NEXT: } {tt.num_stages = 1 : i32}
tt.func public @dynamic(%lo: i32, %hi: i32, %s: i32, %p: !tt.ptr<i32>) {
  scf.for %i = %lo to %hi step %s : i32 {
    tt.store %p, %i : !tt.ptr<i32>
  } {tt.loop_unroll_factor = 2 : i32}
  tt.return
}

// CHECK-LABEL: @even
// CHECK: scf.for
// CHECK-COUNT-4: tt.store
// CHECK: }
// CHECK-NOT: scf.for
tt.func public @even(%p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  scf.for %i = %c0 to %c8 step %c1 : i32 {
    tt.store %p, %i : !tt.ptr<i32>
  } {tt.loop_unroll_factor = 4 : i32}
  tt.return
}

// CHECK-LABEL: @whole
// CHECK-NOT: scf.for
// CHECK-COUNT-3: tt.store
// CHECK: tt.return
tt.func public @whole(%p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  scf.for %i = %c0 to %c3 step %c1 : i32 {
    tt.store %p, %i : !tt.ptr<i32>
  } {tt.loop_unroll_factor = 4 : i32}
  tt.return
}

// CHECK-LABEL: @unasked
// CHECK: scf.for
// CHECK-COUNT-1: tt.store
// CHECK: tt.return
tt.func public @unasked(%lo: i32, %hi: i32, %s: i32, %p: !tt.ptr<i32>) {
  scf.for %i = %lo to %hi step %s : i32 {
    tt.store %p, %i : !tt.ptr<i32>
  }
  tt.return
}
