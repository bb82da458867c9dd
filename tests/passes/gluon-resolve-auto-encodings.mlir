// RUN: gluon-resolve-auto-encodings

#blocked = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>

// From what the program sets back to where values are made, and on through loops and reductions.
// CHECK: #[[B:.*]] = #ttg.blocked
// CHECK-LABEL: @chain
// CHECK: %r = tt.make_range {{.*}} : tensor<16xi32, #ttg.slice<{dim = 1, parent = #[[B]]}>>
// CHECK-NEXT: %e = tt.expand_dims %r {{.*}} -> tensor<16x1xi32, #[[B]]>
// CHECK-NEXT: %b = tt.broadcast %e {{.*}} -> tensor<16x32xi32, #[[B]]>
// CHECK-NOT: gluon.set_auto_layout
// CHECK: arith.addi %b, %x : tensor<16x32xi32, #[[B]]>
// CHECK: %l = scf.for {{.*}} iter_args(%a = %cst) -> (tensor<16xi32, #ttg.slice<{dim = 1, parent = #[[B]]}>>)
// CHECK: arith.addi %a, %r : tensor<16xi32, #ttg.slice<{dim = 1, parent = #[[B]]}>>
// CHECK: tt.join {{.*}} -> tensor<16x32x2xi32, #[[J:.*]]>
tt.func public @chain(%x: tensor<16x32xi32, #blocked>, %n: i32) {
  %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #gluon.auto_encoding>
  %e = tt.expand_dims %r {axis = 1 : i32} : tensor<16xi32, #gluon.auto_encoding> -> tensor<16x1xi32, #gluon.auto_encoding>
  %b = tt.broadcast %e : tensor<16x1xi32, #gluon.auto_encoding> -> tensor<16x32xi32, #gluon.auto_encoding>
  %s = gluon.set_auto_layout %b : tensor<16x32xi32, #gluon.auto_encoding> -> tensor<16x32xi32, #blocked>
  %y = arith.addi %s, %x : tensor<16x32xi32, #blocked>
  %cst = arith.constant dense<0> : tensor<16xi32, #gluon.auto_encoding>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %l = scf.for %i = %c0 to %n step %c1 iter_args(%a = %cst) -> (tensor<16xi32, #gluon.auto_encoding>) : i32 {
    %z = arith.addi %a, %r : tensor<16xi32, #gluon.auto_encoding>
    scf.yield %z : tensor<16xi32, #gluon.auto_encoding>
  }
  %j = tt.join %b, %b : tensor<16x32xi32, #gluon.auto_encoding> -> tensor<16x32x2xi32, #gluon.auto_encoding>
  tt.return
}

#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>

// A layout may be found under two names, one of which went through permutations.
// CHECK-LABEL: @two_names
// CHECK: %q = tt.trans {{.*}} -> tensor<16x8xi32, #[[L:.*]]>
// CHECK-NEXT: %[[C:.*]] = ttg.convert_layout %x : tensor<16x8xi32, #mma> -> tensor<16x8xi32, #[[L]]>
// CHECK-NEXT: %y = arith.addi %q, %[[C]] : tensor<16x8xi32, #[[L]]>
// CHECK-NEXT: ttg.convert_layout %y : tensor<16x8xi32, #[[L]]> -> tensor<16x8xi32, #mma>
tt.func public @two_names() -> tensor<16x8xi32, #mma> {
  %x = arith.constant dense<1> : tensor<16x8xi32, #gluon.auto_encoding>
  %p = tt.trans %x {order = array<i32: 1, 0>} : tensor<16x8xi32, #gluon.auto_encoding> -> tensor<8x16xi32, #gluon.auto_encoding>
  %q = tt.trans %p {order = array<i32: 1, 0>} : tensor<8x16xi32, #gluon.auto_encoding> -> tensor<16x8xi32, #gluon.auto_encoding>
  %y = arith.addi %q, %x : tensor<16x8xi32, #gluon.auto_encoding>
  %s = gluon.set_auto_layout %y : tensor<16x8xi32, #gluon.auto_encoding> -> tensor<16x8xi32, #mma>
  tt.return %s : tensor<16x8xi32, #mma>
}

// Other values of loops keep their layouts.
// CHECK-LABEL: @carried
// CHECK: %l:2 = scf.for {{.*}} -> (tensor<16x8xi32, #[[L]]>, tensor<16x8xi32, #blocked>)
// CHECK-NEXT: tt.print {{.*}} %b : tensor<16x8xi32, #blocked>
// CHECK: scf.yield %{{.*}}, %b : tensor<16x8xi32, #[[L]]>, tensor<16x8xi32, #blocked>
tt.func public @carried(%z: tensor<16x8xi32, #blocked>, %n: i32) -> tensor<16x8xi32, #mma> {
  %x = arith.constant dense<1> : tensor<16x8xi32, #gluon.auto_encoding>
  %p = tt.trans %x {order = array<i32: 1, 0>} : tensor<16x8xi32, #gluon.auto_encoding> -> tensor<8x16xi32, #gluon.auto_encoding>
  %q = tt.trans %p {order = array<i32: 1, 0>} : tensor<8x16xi32, #gluon.auto_encoding> -> tensor<16x8xi32, #gluon.auto_encoding>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %l:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %z) -> (tensor<16x8xi32, #gluon.auto_encoding>, tensor<16x8xi32, #blocked>) : i32 {
    tt.print " " {hex = false, isSigned = array<i32: 1>} : %b : tensor<16x8xi32, #blocked>
    scf.yield %q, %b : tensor<16x8xi32, #gluon.auto_encoding>, tensor<16x8xi32, #blocked>
  }
  %s = gluon.set_auto_layout %l#0 : tensor<16x8xi32, #gluon.auto_encoding> -> tensor<16x8xi32, #mma>
  tt.return %s : tensor<16x8xi32, #mma>
}

// Each value that a loop carries has a layout of its own.
// CHECK-LABEL: @two_carried
// CHECK: scf.for {{.*}} -> (tensor<16xi32, #[[A:.*]]>, tensor<16x8xi32, #mma>)
tt.func public @two_carried(%n: i32) -> (tensor<16xi32, #ttg.slice<{dim = 1, parent = #blocked}>>, tensor<16x8xi32, #mma>) {
  %x = arith.constant dense<1> : tensor<16xi32, #gluon.auto_encoding>
  %y = arith.constant dense<1> : tensor<16x8xi32, #gluon.auto_encoding>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %l:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (tensor<16xi32, #gluon.auto_encoding>, tensor<16x8xi32, #gluon.auto_encoding>) : i32 {
    scf.yield %a, %b : tensor<16xi32, #gluon.auto_encoding>, tensor<16x8xi32, #gluon.auto_encoding>
  }
  %s = gluon.set_auto_layout %l#0 : tensor<16xi32, #gluon.auto_encoding> -> tensor<16xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
  %t = gluon.set_auto_layout %l#1 : tensor<16x8xi32, #gluon.auto_encoding> -> tensor<16x8xi32, #mma>
  tt.return %s, %t : tensor<16xi32, #ttg.slice<{dim = 1, parent = #blocked}>>, tensor<16x8xi32, #mma>
}
