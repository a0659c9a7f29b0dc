"""`make matrix`: named parts of the tests on other releases of Debian, in roots of their own."""
