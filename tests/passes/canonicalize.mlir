// RUN: canonicalize

// CHECK-LABEL: @folding
// CHECK-NEXT: %c5_i32 = arith.constant 5 : i32
// CHECK-NEXT: %cst = arith.constant dense<5> : tensor<8xi32>
// CHECK-NEXT: %d = arith.muli %x, %c5_i32 : i32
// CHECK-NEXT: tt.return %d, %cst
tt.func public @folding(%x: i32) -> (i32, tensor<8xi32>) {
  %a = arith.constant 2 : i32
  %b = arith.constant 3 : i32
  %z = arith.constant 0 : i32
  %c = arith.addi %a, %b : i32
  %d = arith.muli %c, %x : i32
  %e = tt.splat %c : i32 -> tensor<8xi32>
  %f = arith.addi %d, %z : i32
  tt.return %f, %e : i32, tensor<8xi32>
}

// CHECK-LABEL: @identities
// CHECK-NOT: arith.{{[a-z]*}}i
// CHECK: tt.return %x, %x, %c0_i32, %x, %c0_i32, %x
tt.func public @identities(%x: i32) -> (i32, i32, i32, i32, i32, i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %m1 = arith.constant -1 : i32
  %a = arith.addi %c0, %x : i32
  %b = arith.muli %x, %c1 : i32
  %c = arith.muli %x, %c0 : i32
  %d = arith.andi %x, %m1 : i32
  %e = arith.subi %x, %x : i32
  %f = arith.maxsi %x, %x : i32
  tt.return %a, %b, %c, %d, %e, %f : i32, i32, i32, i32, i32, i32
}

// x + 0.0 is not x for x = -0.0.
// CHECK-LABEL: @floats
// CHECK: %a = arith.addf %x, %{{.*}} : f32
// CHECK-NEXT: %d = arith.mulf %x, %{{.*}} : f32
// CHECK-NEXT: %e = arith.divf %x, %{{.*}} : f32
// CHECK-NEXT: tt.return %a, %x, %x, %d, %e
tt.func public @floats(%x: f32) -> (f32, f32, f32, f32, f32) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %four = arith.constant 4.0 : f32
  %three = arith.constant 3.0 : f32
  %a = arith.addf %x, %zero : f32
  %b = arith.subf %x, %zero : f32
  %c = arith.mulf %x, %one : f32
  %d = arith.divf %x, %four : f32
  %e = arith.divf %x, %three : f32
  tt.return %a, %b, %c, %d, %e : f32, f32, f32, f32, f32
}

// CHECK-LABEL: @comparisons
// CHECK: %d = arith.cmpi sgt, %x, %c7_i32
// CHECK: tt.return %true, %false, %true, %d, %c
tt.func public @comparisons(%x: i32, %c: i1) -> (i1, i1, i1, i1, i1) {
  %limit = arith.constant 2147483647 : i64
  %false = arith.constant false
  %c7 = arith.constant 7 : i32
  %a = arith.cmpi sle, %x, %x : i32
  %b = arith.cmpi ult, %x, %x : i32
  %w = arith.extsi %x : i32 to i64
  %e = arith.cmpi sle, %w, %limit : i64
  %d = arith.cmpi slt, %c7, %x : i32
  %f = arith.cmpi ne, %c, %false : i1
  tt.return %a, %b, %e, %d, %f : i1, i1, i1, i1, i1
}

// CHECK-LABEL: @selections
// CHECK: %[[S:.*]] = arith.select %c, %y, %x : i32
// CHECK-NEXT: %[[N:.*]] = arith.xori %c, %true : i1
// CHECK-NEXT: tt.return %x, %x, %c, %[[N]], %[[S]]
tt.func public @selections(%c: i1, %x: i32, %y: i32) -> (i32, i32, i1, i1, i32) {
  %true = arith.constant true
  %false = arith.constant false
  %a = arith.select %true, %x, %y : i32
  %b = arith.select %c, %x, %x : i32
  %d = arith.select %c, %true, %false : i1
  %n = arith.xori %c, %true : i1
  %f = arith.select %n, %x, %y : i32
  %e = arith.select %c, %false, %true : i1
  tt.return %a, %b, %d, %e, %f : i32, i32, i1, i1, i32
}

// CHECK-LABEL: @casts
// CHECK: %[[A:.*]] = arith.extsi %x : i16 to i64
// CHECK-NEXT: %[[B:.*]] = arith.extui %x : i16 to i32
// CHECK-NEXT: tt.return %[[A]], %x, %[[B]]
tt.func public @casts(%x: i16) -> (i64, i16, i32) {
  %a = arith.extsi %x : i16 to i32
  %b = arith.extsi %a : i32 to i64
  %c = arith.trunci %b : i64 to i16
  %d = arith.extui %x : i16 to i64
  %e = arith.trunci %d : i64 to i32
  tt.return %b, %c, %e : i64, i16, i32
}

// CHECK-LABEL: @tiles
// CHECK: %[[S:.*]] = tt.splat %x : f32 -> tensor<4x8xf32>
// CHECK-NEXT: %[[T:.*]] = tt.trans %v {order = array<i32: 1, 0>}
// CHECK-NEXT: tt.return %[[S]], %v, %[[T]]
tt.func public @tiles(%x: f32, %v: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>) {
  %a = tt.splat %x : f32 -> tensor<8xf32>
  %b = tt.expand_dims %a {axis = 0 : i32} : tensor<8xf32> -> tensor<1x8xf32>
  %c = tt.broadcast %b : tensor<1x8xf32> -> tensor<4x8xf32>
  %d = tt.trans %v {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  %e = tt.trans %d {order = array<i32: 1, 0>} : tensor<8x4xf32> -> tensor<4x8xf32>
  %f = tt.trans %e {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  tt.return %c, %e, %f : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: @pointers
// CHECK: %[[P:.*]] = tt.addptr %p, %c7_i32
// CHECK-NEXT: tt.load %[[P]] : !tt.ptr<f32>
// CHECK-NEXT: tt.store %p,
// CHECK-NEXT: tt.return
tt.func public @pointers(%p: !tt.ptr<f32>) {
  %c0 = arith.constant 0 : i32
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %true = arith.constant true
  %false = arith.constant false
  %zero = arith.constant 0.0 : f32
  %a = tt.addptr %p, %c3 : !tt.ptr<f32>, i32
  %b = tt.addptr %a, %c4 : !tt.ptr<f32>, i32
  %x = tt.load %b, %true, %zero : !tt.ptr<f32>
  %q = tt.addptr %p, %c0 : !tt.ptr<f32>, i32
  tt.store %q, %x, %true : !tt.ptr<f32>
  tt.store %q, %x, %false : !tt.ptr<f32>
  tt.return
}

// CHECK-LABEL: @conditionals
// CHECK-NOT: scf.if
// CHECK: %[[S:.*]] = arith.select %c, %x, %y : i32
// CHECK-NEXT: tt.return %x, %[[S]]
tt.func public @conditionals(%c: i1, %x: i32, %y: i32) -> (i32, i32) {
  %true = arith.constant true
  %a = scf.if %true -> (i32) {
    scf.yield %x : i32
  } else {
    scf.yield %y : i32
  }
  %b = scf.if %c -> (i32) {
    %n = scf.if %c -> (i32) {
      scf.yield %x : i32
    } else {
      %z = arith.addi %x, %y : i32
      scf.yield %z : i32
    }
    scf.yield %n : i32
  } else {
    scf.yield %y : i32
  }
  tt.return %a, %b : i32, i32
}

// CHECK-LABEL: @loops
// CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %x) -> (i32)
// CHECK-NEXT: arith.addi %[[S]], %y
// CHECK: %[[O:.*]] = arith.addi %x, %y
// CHECK: tt.return %[[R]], %y, %[[O]], %x
tt.func public @loops(%n: i32, %x: i32, %y: i32) -> (i32, i32, i32, i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (i32, i32) : i32 {
    %s = arith.addi %a, %b : i32
    scf.yield %s, %b : i32, i32
  }
  %once = scf.for %i = %c0 to %c1 step %c1 iter_args(%a = %x) -> (i32) : i32 {
    %t = arith.addi %a, %i : i32
    %s = arith.addi %t, %y : i32
    scf.yield %s : i32
  }
  %never = scf.for %i = %c1 to %c0 step %c1 iter_args(%a = %x) -> (i32) : i32 {
    %s = arith.addi %a, %i : i32
    scf.yield %s : i32
  }
  tt.return %r#0, %r#1, %once, %never : i32, i32, i32, i32
}

// CHECK-LABEL: @whiles
// CHECK: scf.while (%[[A:.*]] = %n) : (i32) -> i32 {
// CHECK-NEXT: arith.cmpi sgt, %[[A]], %y
// CHECK: arith.subi
// CHECK: tt.return %y, %x
tt.func public @whiles(%n: i32, %x: i32, %y: i32, %p: !tt.ptr<i32>) -> (i32, i32) {
  %false = arith.constant false
  %c1 = arith.constant 1 : i32
  %r:2 = scf.while (%a = %n, %b = %y) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %a, %b : i32
    tt.store %p, %a : !tt.ptr<i32>
    scf.condition(%more) %a, %b : i32, i32
  } do {
  ^bb0(%a: i32, %b: i32):
    %d = arith.subi %a, %c1 : i32
    scf.yield %d, %b : i32, i32
  }
  %never = scf.while (%a = %x) : (i32) -> i32 {
    scf.condition(%false) %a : i32
  } do {
  ^bb0(%a: i32):
    scf.yield %a : i32
  }
  tt.return %r#1, %never : i32, i32
}

// CHECK-LABEL: @blocks
// CHECK-NOT: cf.
// CHECK: %z = arith.addi %x, %x
// CHECK-NEXT: tt.return %z
tt.func public @blocks(%x: i32) -> i32 {
  %true = arith.constant true
  cf.cond_br %true, ^bb1(%x : i32), ^bb2
^bb1(%y: i32):
  %z = arith.addi %y, %x : i32
  tt.return %z : i32
^bb2:
  %p = ub.poison : i32
  tt.return %p : i32
}

// CHECK-LABEL: @one_target
// CHECK-NOT: cf.
// CHECK: %[[Y:.*]] = arith.select %c, %x, %z : i32
// CHECK-NEXT: tt.return %[[Y]], %z
tt.func public @one_target(%c: i1, %x: i32, %z: i32) -> (i32, i32) {
  cf.cond_br %c, ^bb1(%x, %z : i32, i32), ^bb1(%z, %z : i32, i32)
^bb1(%y: i32, %w: i32):
  tt.return %y, %w : i32, i32
}

// CHECK-LABEL: @sums
// CHECK-NEXT: %{{.*}} = arith.constant 127 : i32
// CHECK-NEXT: %{{.*}} = arith.constant 129 : i32
// CHECK-NEXT: %b = arith.addi %x, %c127_i32 : i32
// CHECK-NEXT: %d = arith.subi %x, %c129_i32 : i32
// CHECK-NEXT: tt.return %b, %d
tt.func @sums(%x: i32) -> (i32, i32) {
  %c128 = arith.constant 128 : i32
  %c1 = arith.constant 1 : i32
  %a = arith.addi %x, %c128 : i32
  %b = arith.subi %a, %c1 : i32
  %c = arith.subi %x, %c1 : i32
  %d = arith.subi %c, %c128 : i32
  tt.return %b, %d : i32, i32
}

// CHECK-LABEL: @constant_addresses
// CHECK-NEXT: %c4096_i64 = arith.constant 4096 : i64
// CHECK-NEXT: %cst = arith.constant dense<4096> : tensor<8xi64>
// CHECK-NEXT: %p = tt.int_to_ptr %c4096_i64 : i64 -> !tt.ptr<i32>
// CHECK-NEXT: %q = tt.int_to_ptr %cst : tensor<8xi64> -> tensor<8x!tt.ptr<i32>>
tt.func @constant_addresses() -> (!tt.ptr<i32>, tensor<8x!tt.ptr<i32>>) {
  %c4096 = arith.constant 4096 : i64
  %p = tt.int_to_ptr %c4096 : i64 -> !tt.ptr<i32>
  %t = tt.splat %c4096 : i64 -> tensor<8xi64>
  %q = tt.int_to_ptr %t : tensor<8xi64> -> tensor<8x!tt.ptr<i32>>
  tt.return %p, %q : !tt.ptr<i32>, tensor<8x!tt.ptr<i32>>
}
