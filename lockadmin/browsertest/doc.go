// Package browsertest tests the page of lockadmin in a real Chromium. It is a module of its
// own, so that nobody else gets what drives the browser.
package browsertest
