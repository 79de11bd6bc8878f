package places

import "context"

// want 1: this directive locks nothing: it is in a test, which is no part of the program
//
//lockmw:lock {id}
func inTest(ctx context.Context, id string) error { return nil }
