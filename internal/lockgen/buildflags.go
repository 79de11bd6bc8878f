package lockgen

import (
	"runtime/debug"
	"slices"
)

// BuildFlags returns the flags of the running program's own build by which packages
// become other ones, for Request.Flags. A test that names them has the packages that it was
// itself compiled from, and waits for no compiler.
func BuildFlags() []string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return flagsOf(build.Settings)
}

func flagsOf(settings []debug.BuildSetting) (flags []string) {
	for _, s := range settings {
		if slices.Contains([]string{"-race", "-trimpath", "-tags"}, s.Key) {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}
