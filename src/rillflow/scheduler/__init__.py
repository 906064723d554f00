"""What may run next: state and rules, without threads, processes, clocks or sockets."""
