// Package older has the scripts of an earlier version, for tests of a rolling upgrade, in which processes of both versions
// share a Redis.
package older

import (
	"embed"
	"strings"
)

//go:embed before-cooldown/*.lua
var files embed.FS

// BeforeCoolDown returns the scripts, by their names, of the version before a cool-down was noted. Those
// that are missing have not changed since.
func BeforeCoolDown() map[string]string {
	part := func(name string) string {
		text, err := files.ReadFile("before-cooldown/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		return string(text)
	}
	joined := strings.NewReplacer("-- include lock\n", part("lock"), "-- include enter\n", part("enter"), "-- include queue\n", part("queue"))
	texts := make(map[string]string)
	for _, name := range []string{"acquire", "release", "releaseto", "renew", "all", "inspect", "force"} {
		texts[name] = joined.Replace(part(name))
	}
	return texts
}
