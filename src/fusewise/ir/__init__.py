"""What is computed: element types, sizes, index expressions, the graph of primitive ops, and its interpreter."""
