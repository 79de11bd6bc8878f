package lockgen

import "runtime/debug"

// BuildFlags returns the flags of the running program's own build by which packages
// become other ones, for Run.Flags. A test that names them has the packages that it was
// itself compiled from, and waits for no compiler.
func BuildFlags() (flags []string) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range build.Settings {
		if (s.Key == "-race" || s.Key == "-trimpath") && s.Value == "true" {
			flags = append(flags, s.Key)
		}
	}
	return flags
}
