// RUN: fuse-nested-loops,canonicalize

// The prologue runs where the inner counter is at its start, the epilogue where it is at its end.
// A tile that is cheaply computed from a scalar is computed in each turn; the scalar is carried.
// CHECK-LABEL: @known
// CHECK: %[[TOTAL:.*]] = arith.select %{{.*}}, %{{.*}}, %c0_i64 : i64
// CHECK: scf.for %{{.*}} = %c0_i64 to %[[TOTAL]] step %c1_i64 iter_args(%i = %lo, %j = %c0_i32, %row = %{{.*}}, %acc = %cst) -> (i32, i32, i32, tensor<8xf32>) : i64 {
// CHECK-DAG: %[[FIRST:.*]] = arith.cmpi eq, %j, %c0_i32
// CHECK-DAG: %[[LAST:.*]] = arith.cmpi eq, %j, %c3_i32
// CHECK: %[[ROW:.*]] = scf.if %[[FIRST]] -> (i32) {
// CHECK-NEXT: arith.divsi %i, %d
// CHECK: } else {
// CHECK-NEXT: scf.yield %row
// CHECK: tt.splat %[[ROW]]
// CHECK: %[[SUM:.*]] = arith.addf %acc,
// CHECK: %[[I:.*]] = arith.select %[[LAST]], %{{.*}}, %i : i32
// CHECK: %[[J:.*]] = arith.select %[[LAST]], %c0_i32, %{{.*}} : i32
// CHECK: %[[ACC:.*]] = scf.if %[[LAST]] -> (tensor<8xf32>) {
// CHECK: tt.store %{{.*}}, %[[SUM]]
// CHECK-NEXT: scf.yield %cst
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[SUM]]
// CHECK: scf.yield %[[I]], %[[J]], %[[ROW]], %[[ACC]]
// CHECK-NEXT: } {tt.flatten}
// CHECK-NOT: scf.for
tt.func public @known(%lo: i32, %hi: i32, %d: i32, %p: !tt.ptr<f32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %base = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  scf.for %i = %lo to %hi step %c1 : i32 {
    %row = arith.divsi %i, %d : i32
    %s = tt.splat %row : i32 -> tensor<8xi32>
    %o = arith.addi %s, %r : tensor<8xi32>
    %sum = scf.for %j = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (tensor<8xf32>) : i32 {
      %js = tt.splat %j : i32 -> tensor<8xi32>
      %at = arith.addi %o, %js : tensor<8xi32>
      %q = tt.addptr %base, %at : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
      %x = tt.load %q : tensor<8x!tt.ptr<f32>>
      %a = arith.addf %acc, %x : tensor<8xf32>
      scf.yield %a : tensor<8xf32>
    }
    %q = tt.addptr %base, %o : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %q, %sum : tensor<8x!tt.ptr<f32>>
  } {tt.flatten}
  tt.return
}

// An inner loop that may have no turns: the outer one is also there without it.
// CHECK-LABEL: @unknown
// CHECK: %[[SOME:.*]] = arith.cmpi slt, %l, %u
// CHECK: scf.if %[[SOME]] {
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: } {tt.flatten}
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.for %[[I:.*]] = %lo to %hi
// CHECK-NEXT: tt.store %p, %[[I]]
// CHECK-NOT: scf.for
tt.func public @unknown(%lo: i32, %hi: i32, %l: i32, %u: i32, %t: i32, %p: !tt.ptr<i32>) {
  %c1 = arith.constant 1 : i32
  scf.for %i = %lo to %hi step %c1 : i32 {
    tt.store %p, %i : !tt.ptr<i32>
    scf.for %j = %l to %u step %t : i32 {
      tt.store %p, %j : !tt.ptr<i32>
    }
  } {tt.flatten}
  tt.return
}

// Left as they are: a loop that does not ask, one whose inner bounds it computes, two inner loops.
// CHECK-LABEL: @left
// CHECK-NOT: arith.select
// CHECK: tt.return
tt.func public @left(%hi: i32, %n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %hi step %c1 : i32 {
    scf.for %j = %c0 to %n step %c1 : i32 {
      tt.store %p, %j : !tt.ptr<i32>
    }
  }
  scf.for %i = %c0 to %hi step %c1 : i32 {
    scf.for %j = %c0 to %i step %c1 : i32 {
      tt.store %p, %j : !tt.ptr<i32>
    }
  } {tt.flatten}
  scf.for %i = %c0 to %hi step %c1 : i32 {
    scf.for %j = %c0 to %n step %c1 : i32 {
      tt.store %p, %j : !tt.ptr<i32>
    }
    scf.for %j = %c0 to %n step %c1 : i32 {
      tt.store %p, %i : !tt.ptr<i32>
    }
  } {tt.flatten}
  tt.return
}
