package taken // want 1: lockgen would write this file, and somebody else has written it; rename it
