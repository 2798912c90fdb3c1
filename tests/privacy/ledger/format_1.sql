BEGIN TRANSACTION;
CREATE TABLE sotto_data_set (
	id INTEGER NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	adjacency VARCHAR(32) NOT NULL, 
	unit VARCHAR(128) NOT NULL, 
	epsilon VARCHAR(64) NOT NULL, 
	delta VARCHAR(64) NOT NULL, 
	cap BIGINT NOT NULL, 
	spent BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	CHECK (cap >= 0 AND spent >= 0 AND spent <= cap), 
	UNIQUE (name)
);
INSERT INTO "sotto_data_set" VALUES(1,'data','replace-one','record','10.0','1e-06',1539269059934006,179374996603898);
INSERT INTO "sotto_data_set" VALUES(2,'april','add-remove','patient','2.0','0.0',2000000000000000,500000000000000);
CREATE TABLE sotto_entry (
	seq BIGINT NOT NULL, 
	data_set INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	release_id VARCHAR(64), 
	amount BIGINT NOT NULL, 
	detail TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (release_id, kind), 
	CHECK (amount >= 0), 
	FOREIGN KEY(data_set) REFERENCES sotto_data_set (id)
);
INSERT INTO "sotto_entry" VALUES(1,1,'open',NULL,0,'{"adjacency": "replace-one", "cap": 1052357367086308, "delta": "1e-06", "epsilon": "8.0", "fingerprint": "abababababababababababababababababababababababababababababababab", "name": "data", "spent": 0, "unit": "record"}','2026-11-21T09:40:43.790+00:00','0000000000000000000000000000000000000000000000000000000000000000','576417dddaec593e6efcbe3f8d02f2a739335808f356e3a9435c8204c0ffd638');
INSERT INTO "sotto_entry" VALUES(2,1,'reserve','one',123301561605547,'{"event": "BoundedRange(eta=1.0)", "note": "poe, embedded, change swap"}','2026-11-21T09:40:43.802+00:00','576417dddaec593e6efcbe3f8d02f2a739335808f356e3a9435c8204c0ffd638','4b537d47167c263b13124095eff2eaa33d3dd0f55dced4f3f7bd7da8a333e7b0');
INSERT INTO "sotto_entry" VALUES(3,1,'reserve','two',31088250473988,'{"event": "PureDP(epsilon=0.25)", "note": "rnm, embedded, change swap"}','2026-11-21T09:40:43.802+00:00','4b537d47167c263b13124095eff2eaa33d3dd0f55dced4f3f7bd7da8a333e7b0','4d126b9c34a5174f903f621928228bb0023eec3ddd3bc2084412a606f64b40fd');
INSERT INTO "sotto_entry" VALUES(4,1,'release','one',0,'{}','2026-11-21T09:40:43.810+00:00','4d126b9c34a5174f903f621928228bb0023eec3ddd3bc2084412a606f64b40fd','7c9233262effdfaeacfdd3d0172c7274dd09285614ebb0fc477319b77a8df8a0');
INSERT INTO "sotto_entry" VALUES(5,1,'release','two',0,'{}','2026-11-21T09:40:43.810+00:00','7c9233262effdfaeacfdd3d0172c7274dd09285614ebb0fc477319b77a8df8a0','f8b47548bc99c9bb12a46726cbb29487fa2d55bb1ca9503af28945e0009ac5b6');
INSERT INTO "sotto_entry" VALUES(6,1,'non-private','three',0,'{"note": "soft, embedded, change none"}','2026-11-21T09:40:43.813+00:00','f8b47548bc99c9bb12a46726cbb29487fa2d55bb1ca9503af28945e0009ac5b6','a97e4d0e53d443c49d1c4a53f89caaf85e13d610f9cc8eab8ef8c8bbce95b6b4');
INSERT INTO "sotto_entry" VALUES(7,1,'release','three',0,'{}','2026-11-21T09:40:43.817+00:00','a97e4d0e53d443c49d1c4a53f89caaf85e13d610f9cc8eab8ef8c8bbce95b6b4','fc585d9595fe6167560b84277095853c228854771e84a46b2817b3f614d8a442');
INSERT INTO "sotto_entry" VALUES(8,1,'reserve','four',10000000000000,'{"event": "ZCDpEvent(rho=0.01, xi=0.0)", "note": "rnm, fake, change swap, isolation not verified"}','2026-11-21T09:40:43.821+00:00','fc585d9595fe6167560b84277095853c228854771e84a46b2817b3f614d8a442','c845c9c879c85480b240a6208637b940b1121a508075282bf9d4c658bb8506f4');
INSERT INTO "sotto_entry" VALUES(9,1,'reserve','five',14985184524363,'{"event": "BoundedRange(eta=0.3) + 3 x PureDP(epsilon=0.05)", "note": "by hand"}','2026-11-21T09:40:43.825+00:00','c845c9c879c85480b240a6208637b940b1121a508075282bf9d4c658bb8506f4','5b825606b81146a4c6332247b7db6dd335824c78802ec70081c91fe19b46f0d1');
INSERT INTO "sotto_entry" VALUES(10,1,'grant',NULL,0,'{"cap": 1539269059934006, "epsilon": "10.0"}','2026-11-21T09:40:43.833+00:00','5b825606b81146a4c6332247b7db6dd335824c78802ec70081c91fe19b46f0d1','af7d026b6bc5d5602915ac2d4e427311e9bfaad257fae600a92e47393e53b1c6');
INSERT INTO "sotto_entry" VALUES(11,1,'version',NULL,0,'{"fingerprint": "efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef"}','2026-11-21T09:40:43.840+00:00','af7d026b6bc5d5602915ac2d4e427311e9bfaad257fae600a92e47393e53b1c6','3caffaf336849296dcb1eea8f997c4abb2df943f1ae4fb344a952c8ad15569fc');
INSERT INTO "sotto_entry" VALUES(12,2,'open',NULL,0,'{"adjacency": "add-remove", "cap": 2000000000000000, "delta": "0.0", "epsilon": "2.0", "fingerprint": "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd", "name": "april", "spent": 0, "unit": "patient"}','2026-11-21T09:40:43.848+00:00','3caffaf336849296dcb1eea8f997c4abb2df943f1ae4fb344a952c8ad15569fc','8f2ff82c3500ec4192cfece9542b35fc26d5526b05a7ab15f1a1020040531068');
INSERT INTO "sotto_entry" VALUES(13,2,'reserve','six',500000000000000,'{"event": "BoundedRange(eta=0.5)", "note": "poe, embedded, change drop"}','2026-11-21T09:40:43.855+00:00','8f2ff82c3500ec4192cfece9542b35fc26d5526b05a7ab15f1a1020040531068','968442660b574beb2fabf7f705c7489c5868d3b0ae15a47eaa9a9ebe805b3e63');
CREATE TABLE sotto_fingerprint (
	fingerprint VARCHAR(64) NOT NULL, 
	data_set INTEGER NOT NULL, 
	PRIMARY KEY (fingerprint), 
	FOREIGN KEY(data_set) REFERENCES sotto_data_set (id)
);
INSERT INTO "sotto_fingerprint" VALUES('abababababababababababababababababababababababababababababababab',1);
INSERT INTO "sotto_fingerprint" VALUES('efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef',1);
INSERT INTO "sotto_fingerprint" VALUES('cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',2);
CREATE TABLE sotto_meta (
	"key" VARCHAR(64) NOT NULL, 
	value VARCHAR(256) NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "sotto_meta" VALUES('schema_version','1');
COMMIT;
