package redisstore

import (
	"context"
	"errors"

	"github.com/lockmw/kit/internal/store"
)

// Settings, which operators write and services read: one hash for a namespace. It does not lie below the namespace, where
// services may write, and its channel does, where they may publish: a message is only a hint to read the hash.

// settingsKey is the key of the hash.
func (s *Store) settingsKey() string { return "lockmw:settings:" + s.ns }

// settingsChannel is no locker's: their names end with ten random characters.
func (s *Store) settingsChannel() string { return s.channels + "settings" }

// settingsMayDiffer tells a listener of settings.
func settingsMayDiffer(h store.Listener) {
	if listens, ok := h.(store.SettingsListener); ok {
		listens.SettingsChanged()
	}
}

// Settings implements store.Store.
func (s *Store) Settings(ctx context.Context) (texts map[string]string, clock int64, err error) {
	until, key := deadline(ctx), s.settingsKey()
	reply, err := s.ask(ctx, until, key, "hgetall", key)
	if err != nil {
		return nil, 0, s.failedSettings(err)
	}
	texts, ok := readSettings(reply)
	if !ok {
		return nil, 0, malformed()
	}
	if reply, err = s.ask(ctx, until, key, "time"); err != nil {
		return nil, 0, s.failedSettings(err)
	}
	if clock, ok = readClock(reply); !ok {
		return nil, 0, malformed()
	}
	return texts, clock, nil
}

// Set implements store.Store. The script is sent by its text: it is asked for once in a while. That the message does not go out is no
// error: services look by themselves.
func (s *Store) Set(ctx context.Context, name string, was *string, text string) (had string, done bool, err error) {
	until, key := deadline(ctx), s.settingsKey()
	args := []any{"eval", changeScript.text, 1, key, name, text}
	if was != nil {
		args = append(args, was)
	}
	reply, err := s.ask(ctx, until, key, args...)
	if err != nil {
		return "", false, s.failedSettings(err)
	}
	had, done, ok := readChanged(reply)
	switch {
	case !ok:
		return "", false, malformed()
	case !done:
		return had, false, nil
	}
	_, _ = s.ask(ctx, until, key, "publish", s.settingsChannel(), "changed")
	return had, true, nil
}

// failedSettings is failed, but for the rights, which are other ones than those of locks.
func (s *Store) failedSettings(err error) error {
	e := s.failed(err)
	if codeOfReply(err) != "NOPERM" {
		return e
	}
	means := "the Redis user lacks a right that settings need, " + seeUser
	if refusal, ok := errors.AsType[*explanation](e.Err); ok {
		e.Err = refusal.err
	}
	return &store.Error{Err: &explanation{means, e.Err}, Permanent: true, Evidence: store.Answered}
}
