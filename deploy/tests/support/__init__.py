"""What the tests of deploy/ share."""
