"""The text form of a graph, `.nir`: printer and parser side by side; parsing what was printed gives
the same graph.

    // noeira-ir 1
    // done: trace   to do: vjp, dce, fuse
    layout @net: 64 {
      0.weight: [4, 3] @ 0 decay
      0.bias: [3] @ 32
    }
    graph @mlp.step {
      input %x: f32[100, 4]
      state %params: f32 @net members
      initial %0.weight = uniform(-1.0, 1.0)
      group 0: LinearReLU[4, 3]
      %0.relu = fused[linear, relu](…) : f32[100, 3]   in 0   from 0: LinearReLU[4, 3] by trace
          | %0.linear = linear(%x, …) : f32[100, 3]   from 0: Linear[4, 3] by trace
          | %0.relu = relu(%0.linear) : f32[100, 3]   from 0: ReLU by trace
      update %step = %step.next
      return %loss
    }

Comments begin with `#`. A node line may name its group (`in 0`) and says where it comes from. The
text of a plan, which `ir/plan.py` shows, is read here too.
"""
