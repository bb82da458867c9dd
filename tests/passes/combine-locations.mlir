// RUN-LOCATIONS: combine

// A product that takes a sum stays at its own line, for debuggers and profilers.
// CHECK-LABEL: @line
// CHECK: tt.dot {{.*}} loc(#[[LINE:.*]])
// CHECK: #[[LINE]] = loc("k.py":3:4)
tt.func public @line(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>)
    -> tensor<16x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tt.dot %a, %b, %zero : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32> loc("k.py":3:4)
  %s = arith.addf %d, %c : tensor<16x16xf32> loc("k.py":4:4)
  tt.return %s : tensor<16x16xf32>
}
