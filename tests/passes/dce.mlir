// RUN: dce

// CHECK-LABEL: @unused
// CHECK-NEXT: tt.load %p {isVolatile = true}
// CHECK-NEXT: tt.return
tt.func public @unused(%n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = tt.load %p : !tt.ptr<i32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (i32) : i32 {
    %y = arith.addi %x, %i : i32
    scf.yield %y : i32
  }
  %v = tt.load %p {isVolatile = true} : !tt.ptr<i32>
  tt.return
}

// A carried value that only feeds itself is dead.
// CHECK-LABEL: @carried
// CHECK: %[[R:.*]] = scf.for %{{.*}} iter_args(%[[X:.*]] = %n) -> (i32)
// CHECK-NEXT: %[[Z:.*]] = arith.addi %[[X]]
// CHECK-NEXT: scf.yield %[[Z]] : i32
// CHECK: tt.store %p, %[[R]]
tt.func public @carried(%n: i32, %p: !tt.ptr<i32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %n, %y = %c1) -> (i32, i32) : i32 {
    %w = arith.muli %y, %y : i32
    %z = arith.addi %x, %i : i32
    scf.yield %z, %w : i32, i32
  }
  tt.store %p, %r#0 : !tt.ptr<i32>
  tt.return
}

// CHECK-LABEL: @branches
// CHECK: %[[R:.*]] = scf.if %c -> (i32) {
// CHECK-NEXT: scf.yield %n : i32
// CHECK: scf.yield
// CHECK: tt.store %p, %[[R]]
tt.func public @branches(%c: i1, %n: i32, %p: !tt.ptr<i32>) {
  %k = arith.constant 3 : i32
  %r:2 = scf.if %c -> (i32, i32) {
    %a = arith.addi %n, %k : i32
    scf.yield %a, %n : i32, i32
  } else {
    scf.yield %n, %k : i32, i32
  }
  tt.store %p, %r#1 : !tt.ptr<i32>
  tt.return
}

// CHECK-LABEL: @while
// CHECK: scf.while (%[[A:.*]] = %n) : (i32) -> i32
// CHECK: scf.condition(%{{.*}}) %[[A]] : i32
tt.func public @while(%n: i32, %p: !tt.ptr<i32>) {
  %c1 = arith.constant 1 : i32
  %c0 = arith.constant 0 : i32
  %r:2 = scf.while (%a = %n, %b = %c1) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %a, %c0 : i32
    scf.condition(%more) %a, %b : i32, i32
  } do {
  ^bb0(%a: i32, %b: i32):
    %x = arith.subi %a, %c1 : i32
    %y = arith.addi %b, %b : i32
    scf.yield %x, %y : i32, i32
  }
  tt.store %p, %r#0 : !tt.ptr<i32>
  tt.return
}

// CHECK-LABEL: @unreachable
// CHECK-NOT: ^bb
// CHECK: tt.return
tt.func public @unreachable() -> i32 {
  %c0 = arith.constant 0 : i32
  tt.return %c0 : i32
^bb1:
  %p = ub.poison : i32
  tt.return %p : i32
}
